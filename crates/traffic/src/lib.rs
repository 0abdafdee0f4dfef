//! Traffic made for measuring and testing: an HTTP origin and an HTTP load generator, each one thread and as light as can be,
//! so that what stands between them is what is measured, and a generator of packets. Judging the numbers is left to
//! `benches`.

pub mod http;
pub mod packet;
