//! The state that all calls and locks of one client share: the nodes, the settings, and the common knowledge.

use std::ops::Deref;
use std::sync::Arc;

use crate::config::settings::Settings;
use crate::error::Error;
use crate::node::Address;
use crate::process::Process;
use crate::runtime::client_state::ClientState;
use crate::runtime::held::Held;
use crate::runtime::queue::Queues;
use crate::runtime::renewal;
use crate::runtime::timetable::Timetable;

/// The nodes and everything else that the clones of one client share.
pub(crate) struct Coordinator {
    state: Arc<ClientState>,
    timetable: Arc<Timetable<Held>>,
    queues: Arc<Queues>,
}

impl Deref for Coordinator {
    type Target = ClientState;

    fn deref(&self) -> &ClientState {
        &self.state
    }
}

impl Coordinator {
    /// Starts the workers and the timetable.
    pub(crate) fn start(
        process: Process,
        addresses: Vec<Address>,
        settings: Settings,
        kinds: &[&'static str],
    ) -> Result<Arc<Self>, Error> {
        let state = ClientState::start(process, addresses, settings, kinds)?;
        let timetable = renewal::start(&state, state.set().suspended()).map_err(|error| {
            Error::config(format!("no thread could be started for renewals: {error}"))
        })?;
        let queues = Queues::new(!state.settings().local_queue);
        let (queues_then, state_then) = (Arc::downgrade(&queues), Arc::downgrade(&state));
        timetable.tidies(move |now| {
            let queues = || queues_then.upgrade().is_some_and(|queues| queues.tidy(now));
            let state = || state_then.upgrade().is_some_and(|state| state.tidy(now));
            // A call stays in its queue until everything that it leaves behind is kept. A release's answer about other
            // waiters reaches the queues while the release is still in the state.
            let left = [queues(), state(), queues()];
            left.contains(&true)
        });
        Ok(Arc::new(Self { state, timetable, queues }))
    }

    pub(crate) fn state(&self) -> &Arc<ClientState> {
        &self.state
    }

    pub(crate) fn timetable(&self) -> &Arc<Timetable<Held>> {
        &self.timetable
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }
}
