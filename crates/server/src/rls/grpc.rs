//! The service as tonic has it, beside health and reflection.

use tonic::{Request, Response, Status};

use super::RateLimits;
use super::proto::{
    RateLimitRequest, RateLimitResponse, rate_limit_service_server::RateLimitService,
};
use crate::trace::{Noted, Notes};

#[tonic::async_trait]
impl RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        // A span is the door's; what is noted for it goes back with the response.
        let mut noted = request.extensions().get::<Noted>().cloned();
        let to = &mut Notes::new(noted.as_mut());
        let decided = self.decide_noting(request.get_ref(), to).await?;
        let mut response = Response::new(decided);
        if let Some(noted) = noted {
            response.extensions_mut().insert(noted);
        }
        Ok(response)
    }
}
