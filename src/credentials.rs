//! Credentials that change: the public types.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The password for a login, and the time for which it is valid: the answer of a provider that
/// [`Builder::credentials`](crate::Builder::credentials) has set.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorlock::Credentials;
///
/// let token = "eyJ0eXAi..";
/// let credentials = Credentials::new(token).user("locker").valid_for(Duration::from_secs(900));
/// assert!(!format!("{credentials:?}").contains(token));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    pub(crate) valid_for: Option<Duration>,
}

impl Credentials {
    /// A password that is valid until the server refuses it. Live connections keep their login. New ones log in with it for the next
    /// ten seconds, and then ask the provider again. An empty password is an error.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into(), valid_for: None }
    }

    /// Sets the user. Defaults to the one in the node's URL, or else to Redis's user `default`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the time for which the password is valid, from the call of the provider on. After three quarters of it, and not before
    /// a second, the provider is asked again, and live connections log in again.
    #[must_use]
    pub fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = Some(time);
        self
    }
}

/// Hides the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

type Ask = dyn Fn(&str) -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync;

/// The user's code that provides credentials. It runs while none of our mutexes is locked, and a panic in it is caught.
#[derive(Clone)]
pub(crate) struct CredentialProvider(Arc<Ask>);

impl UnwindSafe for CredentialProvider {}
impl RefUnwindSafe for CredentialProvider {}

impl CredentialProvider {
    pub(crate) fn new(
        ask: impl Fn(&str) -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks for the credentials of that node. The error is for people.
    pub(crate) fn ask(&self, node: &str) -> Result<Credentials, String> {
        let ask = || (self.0)(node).map_err(|error| error.to_string());
        match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(given)) if given.password.is_empty() => {
                Err("the provider of credentials gave an empty password".to_owned())
            }
            Ok(asked) => asked,
            Err(_) => Err("the provider of credentials panicked".to_owned()),
        }
    }
}
