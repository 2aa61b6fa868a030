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

pub use self::envoy::config::core::v3::HeaderValue;
pub use self::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use self::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub use self::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub use self::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
pub use self::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_service_client, rate_limit_service_server,
};

/// All of that as a set of descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");
