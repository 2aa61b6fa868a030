//! Envoy, which asks over gRPC.
