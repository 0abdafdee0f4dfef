//! Ways to syslog servers.
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use rules::host::LogTarget;
#[derive(Default)]
pub(crate) struct Ways;
impl Ways {
    pub(super) fn open(&self, _: &Snapshot, _: LogTarget) -> Result<u64, String> {
        Ok(0)
    }
    pub(super) fn send(&self, _: &Worker, _: u64, _: &[u8]) -> bool {
        false
    }
}
