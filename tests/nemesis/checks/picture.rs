//! The picture shows what there was.

use crate::judge::picture::picture;
use crate::judge::{Rules, Verdict};

use super::Check;
use super::story::{Story, ms};

pub(crate) const CHECKS: &[Check] =
    &[("judge::a_picture_shows_holds_faults_and_violations", a_picture_shows_all)];

fn a_picture_shows_all() {
    let story = Story::default().valid(10, "w1/1/1", 1, 100).fault(15, 1, "master 1");
    let story = story.fault(16, 2, "worker w1 to masters 0 1").healed(17, 2);
    let history = story.healed(18, 1).valid(20, "w2/1/1", 2, 100).leaves(90, "w2/1/1").end();
    let rules = Rules {
        recovery: None,
        tokens: false,
        aftermath: ms(0),
        grants_a_second: 0.0,
        share_hit: 0.0,
    };
    let svg = picture(&Verdict::of(&history, &rules));
    for shown in [
        ">a, w1<",
        ">a, w2<",
        ">master 1<",
        ">worker w1, links<",
        "two were inside &quot;a&quot; at once",
    ] {
        assert_eq!(svg.matches(shown).count(), 1, "{shown} in {svg}");
    }
}
