//! Scripts: Lua 5.1 in a sandbox that can call the node's commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use parking_lot::Mutex;

use super::convert;
use super::keyspace::Bytes;
use super::reply::{Answer, Fault, Reply};
use super::state::State;

const SANDBOX: &str = include_str!("sandbox.lua");

/// Time limit of a script in interpreter steps: about one second.
const LONGEST_RUN: u64 = 50_000_000;
/// Interpreter steps between two checks of this limit.
const STRIDE: u32 = 10_000;
/// Memory limit of all scripts of a node together, in bytes.
const MEMORY: usize = 64 << 20;
/// Number of scripts that are remembered. One more makes the node forget all others, as after SCRIPT FLUSH.
const MOST_SCRIPTS: usize = 1_000;

/// The interpreter of one node, and the scripts that it remembers.
pub(super) struct Scripts {
    lua: Lua,
    environment: Table,
    /// The table in which scripts find KEYS and ARGV.
    globals: Table,
    run: Function,
    steps_left: Arc<AtomicU64>,
    known: HashMap<String, Function>,
    /// The script texts that were run, with their hashes: clients send the same few texts again and again. Most differ in
    /// length, so a search is cheaper than a hash of the text.
    texts: Vec<(Bytes, String)>,
}

impl Scripts {
    pub(super) fn new(state: &Arc<Mutex<State>>) -> Result<Self, Fault> {
        Self::start(state).map_err(|error| broken(&error))
    }

    fn start(state: &Arc<Mutex<State>>) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY)?;
        let steps_left = Arc::new(AtomicU64::new(0));

        let left = steps_left.clone();
        lua.set_hook(HookTriggers::new().every_nth_instruction(STRIDE), move |_, _| {
            let before = left.load(Ordering::Relaxed);
            left.store(before.saturating_sub(u64::from(STRIDE)), Ordering::Relaxed);
            match before {
                0 => Err(mlua::Error::runtime("the script runs for too long")),
                _ => Ok(VmState::Continue),
            }
        })?;

        let state = state.clone();
        let call = lua.create_function(move |lua, words: MultiValue| {
            let answer = convert::command(&words).and_then(|words| {
                // The state is not locked while Lua code runs.
                state.lock().call_from_script(&words)
            });
            let reply = answer.unwrap_or_else(Reply::from);
            Ok((matches!(reply, Reply::Error(_)), convert::to_lua(lua, &reply)?))
        })?;
        let sha = lua.create_function(|_, text: mlua::LuaString| {
            Ok(sha1_smol::Sha1::from(text.as_bytes()).hexdigest())
        })?;
        let left = steps_left.clone();
        let out_of_time =
            lua.create_function(move |_, ()| Ok(left.load(Ordering::Relaxed) == 0))?;

        steps_left.store(LONGEST_RUN, Ordering::Relaxed);
        let sandbox = lua.load(SANDBOX).set_name("=sandbox").into_function()?;
        let (environment, globals, run) = sandbox.call((call, sha, out_of_time))?;
        Ok(Self {
            lua,
            environment,
            globals,
            run,
            steps_left,
            known: HashMap::new(),
            texts: Vec::new(),
        })
    }

    pub(super) fn eval(&mut self, words: &[Bytes]) -> Answer {
        let source = &words[0];
        if let Some((_, sha)) = self.texts.iter().find(|(text, _)| text == source) {
            let sha = sha.clone();
            if !self.known.contains_key(&sha) {
                self.load(source)?;
            }
            return self.run(&sha, &words[1..]);
        }
        let sha = self.load(source)?;
        if self.texts.len() >= MOST_SCRIPTS {
            self.texts.clear();
        }
        self.texts.push((source.clone(), sha.clone()));
        self.run(&sha, &words[1..])
    }

    pub(super) fn eval_sha(&mut self, words: &[Bytes]) -> Answer {
        let sha = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
        self.run(&sha, &words[1..])
    }

    /// Compiles the script and returns its hash.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<String, Fault> {
        let sha = sha1_smol::Sha1::from(source).hexdigest();
        if !self.known.contains_key(&sha) {
            let chunk = self.lua.load(source).set_name("@user_script").set_mode(ChunkMode::Text);
            let script = chunk.set_environment(self.environment.clone()).into_function();
            let script = script.map_err(|error| {
                let text = format!("ERR Error compiling script (new function): {error}");
                Fault::new(text)
            })?;
            if self.known.len() >= MOST_SCRIPTS {
                self.known.clear();
            }
            self.known.insert(sha.clone(), script);
        }
        Ok(sha)
    }

    pub(super) fn knows(&self, sha: &[u8]) -> bool {
        self.known.contains_key(&String::from_utf8_lossy(sha).to_ascii_lowercase())
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
    }

    /// Runs a known script; `words` are the number of keys, the keys and the arguments.
    fn run(&mut self, sha: &str, words: &[Bytes]) -> Answer {
        let keys = super::number::integer(&words[0])?;
        let words = &words[1..];
        let keys =
            usize::try_from(keys).map_err(|_| Fault::of("ERR Number of keys can't be negative"))?;
        if keys > words.len() {
            return Err(Fault::of("ERR Number of keys can't be greater than number of args"));
        }
        let script = self
            .known
            .get(sha)
            .ok_or(Fault::of("NOSCRIPT No matching script. Please use EVAL."))?;
        let (keys, arguments) = words.split_at(keys);
        let outcome = self.call(script, keys, arguments);
        // Garbage of one script must not count against the memory of the next.
        if self.lua.used_memory() > MEMORY / 2 {
            let _ = self.lua.gc_collect();
        }
        if self.steps_left.load(Ordering::Relaxed) == 0 {
            return Err(Fault::new(format!("ERR the script ran for too long. script: {sha}.")));
        }
        match outcome.map_err(|error| broken(&error))? {
            (true, value) => convert::from_lua(value),
            (false, problem) => {
                let text = convert::error_text(&problem);
                Err(Fault::new(format!("{text} script: {sha}.")))
            }
        }
    }

    fn call(
        &self,
        script: &Function,
        keys: &[Bytes],
        arguments: &[Bytes],
    ) -> mlua::Result<(bool, Value)> {
        self.globals.raw_set("KEYS", convert::texts(&self.lua, keys)?)?;
        self.globals.raw_set("ARGV", convert::texts(&self.lua, arguments)?)?;
        self.steps_left.store(LONGEST_RUN, Ordering::Relaxed);
        self.run.call(script)
    }
}

fn broken(error: &mlua::Error) -> Fault {
    Fault::new(format!("ERR {error}"))
}
