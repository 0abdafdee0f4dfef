//! One verdict out of several monitors' on the same member.

/// A member that must pass all of its monitors: up when every one of them says so, down as soon as
/// one says otherwise, and without a verdict while some have yet to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined(Vec<Option<bool>>);

impl Combined {
    /// A member with that many monitors, none of which has spoken.
    pub fn new(monitors: usize) -> Self {
        Combined(vec![None; monitors])
    }

    /// The verdict of them all. A member without monitors is up.
    pub fn up(&self) -> Option<bool> {
        if self.0.contains(&Some(false)) {
            Some(false)
        } else if self.0.contains(&None) {
            None
        } else {
            Some(true)
        }
    }

    /// Takes in what `monitor` (counted from 0) says; tells the verdict of all if that changed it.
    ///
    /// # Panics
    ///
    /// When there are not that many monitors.
    pub fn observe(&mut self, monitor: usize, up: bool) -> Option<bool> {
        let before = self.up();
        self.0[monitor] = Some(up);
        self.up().filter(|_| self.up() != before)
    }

    /// The monitors that say down.
    pub fn down(&self) -> impl Iterator<Item = usize> {
        let failing = |(n, up): (usize, &Option<bool>)| (*up == Some(false)).then_some(n);
        self.0.iter().enumerate().filter_map(failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_up_when_all_its_monitors_are() {
        let mut member = Combined::new(2);
        assert_eq!(member.up(), None);
        assert_eq!(member.observe(0, true), None);
        assert_eq!(member.observe(1, true), Some(true));
        assert_eq!(member.observe(0, false), Some(false));
        assert_eq!(member.observe(1, false), None);
        assert_eq!(member.down().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(member.observe(0, true), None);
        assert_eq!(member.observe(1, true), Some(true));
    }

    #[test]
    fn one_monitor_that_says_down_is_enough_before_the_others_spoke() {
        let mut member = Combined::new(3);
        assert_eq!(member.observe(2, false), Some(false));
        assert_eq!(member.observe(2, true), None);
        assert_eq!(member.up(), None);
    }

    #[test]
    fn a_member_without_monitors_is_up() {
        assert_eq!(Combined::new(0).up(), Some(true));
    }
}
