//! The containers of a run, and the actions on them.

use crate::Failure;
use crate::engine::docker;

/// The label of everything that belongs to a run; its value is the run. `compose.yml` and `scripts/docker.sh` use
/// it too.
const LABEL: &str = "quorlock.harness";

/// The program of this example in its image.
const PROGRAM: &str = "quorlock-harness";

/// The network of masters and workers, as named in compose.yml.
const MASTERS: &str = "masters";

/// All containers of a run.
pub(crate) struct Hosts {
    label: String,
    /// The real name of the network of masters and workers.
    network: String,
    /// The image with this program.
    image: String,
    hosts: Vec<Host>,
}

/// One container. Its name is that of its service, which is also its name in the networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    name: String,
    container: String,
}

impl Host {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `3` of `master3`.
    pub(crate) fn number(&self) -> &str {
        self.name.trim_start_matches(char::is_alphabetic)
    }
}

impl Hosts {
    /// Finds the containers that compose has started for that run.
    pub(crate) fn find(run: &str) -> Result<Self, Failure> {
        let label = format!("{LABEL}={run}");
        let filter = format!("label={label}");
        let format = "{{.Label \"com.docker.compose.service\"}} {{.ID}}";
        let listed = docker(&["ps", "--all", "--filter", &filter, "--format", format])?;
        let mut hosts: Vec<Host> = pairs(&listed)
            .map(|(name, container)| Host {
                name: name.to_owned(),
                container: container.to_owned(),
            })
            .collect();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));

        let format = "{{.Label \"com.docker.compose.network\"}} {{.Name}}";
        let listed = docker(&["network", "ls", "--filter", &filter, "--format", format])?;
        let network = pairs(&listed).find(|(name, _)| *name == MASTERS);
        let (_, network) = network.ok_or_else(|| format!("run {run} has no network {MASTERS}"))?;
        let network = network.to_owned();
        let mut found = Self { label, network, image: String::new(), hosts };
        let witness = &found.named("witness")?.container;
        found.image = docker(&["inspect", "--format", "{{.Image}}", witness])?;
        Ok(found)
    }

    /// Returns the host of that name.
    pub(crate) fn named(&self, name: &str) -> Result<&Host, Failure> {
        let host = self.hosts.iter().find(|host| host.name == name);
        host.ok_or_else(|| {
            format!("{}: there is no container of the service {name}", self.label).into()
        })
    }

    /// Returns the hosts whose name is `kind` and a number.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<Host> {
        let is_one = |host: &&Host| host.name.strip_prefix(kind) == Some(host.number());
        self.hosts.iter().filter(is_one).cloned().collect()
    }

    /// Returns the address on this machine at which a port of a host is published.
    pub(crate) fn published(&self, host: &Host, port: &str) -> Result<String, Failure> {
        let listed = docker(&["port", &host.container, port])?;
        let address = listed.lines().next().map(str::to_owned);
        address.ok_or_else(|| format!("{} does not publish its port {port}", host.name).into())
    }

    /// Returns the hosts that have ended by themselves.
    pub(crate) fn ended(&self) -> Result<Vec<&Host>, Failure> {
        let mut ended = Vec::new();
        for host in &self.hosts {
            let running = docker(&["inspect", "--format", "{{.State.Running}}", &host.container])?;
            if running != "true" {
                ended.push(host);
            }
        }
        Ok(ended)
    }

    /// Returns the exit status of a host that has ended.
    pub(crate) fn status(&self, host: &Host) -> Result<String, Failure> {
        docker(&["inspect", "--format", "{{.State.ExitCode}}", &host.container])
    }

    /// Ends all processes of a host at once.
    pub(crate) fn kill(&self, host: &Host) -> Result<(), Failure> {
        done(docker(&["kill", &host.container]))
    }

    /// Starts a host that was killed, with the data that it has on its volume.
    pub(crate) fn start(&self, host: &Host) -> Result<(), Failure> {
        done(docker(&["start", &host.container]))
    }

    /// Empties the data volume of a host that was killed.
    pub(crate) fn wipe(&self, host: &Host) -> Result<(), Failure> {
        let (label, volumes) = (&self.label, &host.container);
        done(docker(&[
            "run",
            "--rm",
            "--label",
            label,
            "--network",
            "none",
            "--volumes-from",
            volumes,
            &self.image,
            PROGRAM,
            "wipe",
            "/data",
        ]))
    }

    /// Suspends all processes of a host.
    pub(crate) fn pause(&self, host: &Host) -> Result<(), Failure> {
        done(docker(&["pause", &host.container]))
    }

    pub(crate) fn unpause(&self, host: &Host) -> Result<(), Failure> {
        done(docker(&["unpause", &host.container]))
    }

    /// Deletes all data of a master that is up.
    pub(crate) fn flush(&self, master: &Host) -> Result<(), Failure> {
        done(docker(&["exec", &master.container, "redis-cli", "FLUSHALL"]))
    }

    /// Takes a host out of the network of masters and workers.
    pub(crate) fn disconnect(&self, host: &Host) -> Result<(), Failure> {
        done(docker(&["network", "disconnect", &self.network, &host.container]))
    }

    /// Brings the host back into the network, under its name.
    pub(crate) fn connect(&self, host: &Host) -> Result<(), Failure> {
        connect_to(&self.network, host)
    }

    /// Creates a network for a worker and some masters, and takes the worker out of the common one. With `splits`
    /// the masters leave the common network as well; otherwise they are in both.
    pub(crate) fn isolate(
        &self,
        worker: &Host,
        masters: &[Host],
        splits: bool,
    ) -> Result<(), Failure> {
        let island = self.island(worker);
        docker(&["network", "create", "--internal", "--label", &self.label, &island])?;
        for host in [worker].into_iter().chain(masters.iter().filter(|_| splits)) {
            self.disconnect(host)?;
        }
        masters.iter().chain([worker]).try_for_each(|host| connect_to(&island, host))
    }

    /// Undoes [`isolate`](Self::isolate).
    pub(crate) fn rejoin(
        &self,
        worker: &Host,
        masters: &[Host],
        splits: bool,
    ) -> Result<(), Failure> {
        let island = self.island(worker);
        for host in masters.iter().chain([worker]) {
            docker(&["network", "disconnect", &island, &host.container])?;
        }
        for host in [worker].into_iter().chain(masters.iter().filter(|_| splits)) {
            self.connect(host)?;
        }
        done(docker(&["network", "rm", &island]))
    }

    fn island(&self, worker: &Host) -> String {
        format!("{}-island-of-{}", self.network, worker.name)
    }

    /// Copies a file out of a host.
    pub(crate) fn copy_out(&self, host: &Host, path: &str, to: &str) -> Result<(), Failure> {
        done(docker(&["cp", &format!("{}:{path}", host.container), to]))
    }
}

/// Connects a host under its name, which Docker knows only in the network in which it was given.
fn connect_to(network: &str, host: &Host) -> Result<(), Failure> {
    done(docker(&["network", "connect", "--alias", &host.name, network, &host.container]))
}

/// Drops the output of a command.
fn done(result: Result<String, Failure>) -> Result<(), Failure> {
    result.map(drop)
}

fn pairs(listed: &str) -> impl Iterator<Item = (&str, &str)> {
    listed.lines().filter_map(|line| line.split_once(' '))
}
