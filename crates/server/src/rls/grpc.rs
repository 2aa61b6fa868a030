//! The service as tonic has it, beside health and reflection.

use tonic::{Request, Response, Status};

use super::RateLimits;
use super::proto::{
    RateLimitRequest, RateLimitResponse, rate_limit_service_server::RateLimitService,
};

#[tonic::async_trait]
impl RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        self.decide(request.get_ref()).await.map(Response::new)
    }
}
