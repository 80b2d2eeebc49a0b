//! The order in which the nodes are asked for a name, if they are not asked all at once.

use super::super::base::{Mechanism, Rule};

/// The nodes, by their `names`, in an order that depends on the `keys` of the lock. All clients compute the same
/// order, however their configurations list the nodes. Different locks prefer different nodes, which spreads the
/// load.
///
/// All locks with several keys share one order, since any two of them may have a key in common. If two such locks
/// began with different nodes, each would get its own node again and again, and block the other there for the time of
/// an attempt.
pub(crate) fn asking_order(keys: &[&[u8]], names: &[impl AsRef<str>]) -> Vec<usize> {
    let key: &[u8] = match *keys {
        [key] => key,
        [first, ..] => b"".as_slice().if_off(Mechanism::SeveralNamesMeet, first),
        [] => b"",
    };
    let mut order: Vec<_> = (0..names.len()).collect();
    order.sort_by_cached_key(|node| hash(key, names[*node].as_ref().as_bytes()));
    order
}

/// FNV-1a, with a final mix so that names that differ only in their end spread as well. Clients of different versions
/// must agree on this hash to begin with the same node.
fn hash(key: &[u8], node: &[u8]) -> u64 {
    let bytes = node.iter().chain(b"\0").chain(key);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    #[test]
    fn clients_that_list_the_nodes_differently_begin_with_the_same_one() {
        let (one, other) = (["a:6379", "b:6379", "c:6379"], ["c:6379", "a:6379"]);
        for i in 0..100 {
            let key = format!("orders/{i}");
            let first: Vec<_> =
                asking_order(&[key.as_bytes()], &one).into_iter().map(|node| one[node]).collect();
            let second: Vec<_> = asking_order(&[key.as_bytes()], &other)
                .into_iter()
                .map(|node| other[node])
                .collect();
            let common: Vec<_> = first.into_iter().filter(|name| other.contains(name)).collect();
            assert_eq!(common, second, "{key}");
        }
    }

    #[test]
    fn locks_that_have_a_key_in_common_begin_with_the_same_node() {
        let names = ["a:6379", "b:6379", "c:6379"];
        let first = |keys: &[&[u8]]| asking_order(keys, &names)[0];
        let pairs = || (0..9_u8).map(|i| first(&[&[i], &[i + 1]]));
        let meet = || pairs().all(|node| node == first(&[b"x", b"y", b"z"]));
        assert!(meet());
        assert!(!without(&[Mechanism::SeveralNamesMeet], meet), "they share the nodes out");
    }

    #[test]
    fn each_node_is_the_first_one_for_its_share_of_the_names() {
        let names: Vec<_> = (0..5).map(|i| format!("10.0.0.{i}")).collect();
        let mut firsts = [0; 5];
        for i in 0..1_000 {
            firsts[asking_order(&[format!("orders/{i}").as_bytes()], &names)[0]] += 1;
        }
        assert!(firsts.iter().all(|count| (150..250).contains(count)), "{firsts:?}");
    }
}
