//! The little of nf_tables that a node needs, spoken to the kernel directly.
//!
//! Every table here but those of [`Outbound`] and [`services`] is *owned*: it lives as long as the socket it was made by. When the process ends, in whatever way, the kernel
//! removes the table and with it all that it did to packets. That needs Linux 5.12.

mod attribute;
mod batch;
pub mod conversations;
mod error;
mod expression;
mod ingress;
mod interception;
mod outbound;
pub mod services;
mod set;
mod table;
mod translation;

pub use error::NftError;
pub use ingress::{Accept, IngressFilter};
pub use interception::{Course, Exempt, Interception, Interceptions};
pub use outbound::Outbound;
pub use translation::{Masquerade, PortMapping, Translation, TranslationRules};
