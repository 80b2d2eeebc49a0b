//! Servers and managed offers that answer as their pages say: those that can be used grant locks, and the errors name the others.

mod support;

use std::time::Duration;

use quorlock::ErrorKind;
use support::clients::fresh;
use support::offers::{Expected, OFFERS};

#[test]
fn each_offer_grants_locks_or_is_refused_with_the_reason() {
    for offer in OFFERS {
        let builder = fresh([offer.start()]).max_ttl(Duration::from_secs(600));
        let builder = builder.ttl(Duration::from_secs(60)).node_timeout(Duration::from_secs(10));
        let locks = builder.build().expect("the settings are valid");
        let got = locks.try_lock("orders/42");
        let name = offer.name;
        match (&offer.expected, got) {
            (Expected::Works | Expected::Doubted(_), Ok(guard)) => {
                guard.unlock().unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            (Expected::Refused(words), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Config, "{name}: {error}");
                let text = error.to_string();
                words.iter().for_each(|word| assert!(text.contains(word), "{name}: {text}"));
            }
            (_, got) => panic!("{name}: {got:?}"),
        }
    }
}
