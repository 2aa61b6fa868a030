//! The messages of Envoy's rate limit service, by their packages.
//!
//! `cargo xtask proto` makes what is included here; nobody edits it.

#![expect(missing_docs, reason = "Envoy's files say what they mean")]
#![expect(clippy::pedantic, reason = "a program wrote it")]
#![expect(clippy::allow_attributes_without_reason, reason = "a program wrote it")]

/// Envoy's packages.
pub mod envoy {
    /// What Envoy's messages are made of.
    pub mod config {
        pub mod core {
            pub mod v3 {
                include!("gen/envoy.config.core.v3.rs");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    include!("gen/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                include!("gen/envoy.service.ratelimit.v3.rs");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            include!("gen/envoy.type.v3.rs");
        }
    }
}

/// All of that as a set of descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");
