//! Grants that count only once the node's replicas have them (`wait_replicas`).

use super::super::base::{Mechanism, Rule};

/// Returns true if so many replicas have acknowledged all that was written before, and so many are `needed`.
pub(crate) fn enough_replicas(acknowledged: i64, needed: u32) -> bool {
    (acknowledged >= i64::from(needed)).if_off(Mechanism::GrantsAwaitReplicas, true)
}

/// Returns true if the server with the run id `answered_by` has granted, so that its replicas say something about the grant.
/// Another server, which was promoted meanwhile, may never have had the key.
pub(crate) fn is_of_grantor(answered_by: &str, granted_by: &str) -> bool {
    (answered_by == granted_by).if_off(Mechanism::ReplicasAreOfTheGrantor, true)
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    #[test]
    fn a_grant_counts_once_enough_replicas_of_its_server_have_it() {
        assert!(enough_replicas(2, 2) && enough_replicas(3, 2) && !enough_replicas(1, 2));
        assert!(without(&[Mechanism::GrantsAwaitReplicas], || enough_replicas(0, 1)));
        assert!(is_of_grantor("a", "a") && !is_of_grantor("b", "a"));
        assert!(without(&[Mechanism::ReplicasAreOfTheGrantor], || is_of_grantor("b", "a")));
    }
}
