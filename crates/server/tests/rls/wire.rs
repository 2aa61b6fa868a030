//! The door itself: what it refuses, health, reflection, JSON and how it stops.

use std::time::Duration;

use tidegate_server::Ended;
use tidegate_server::rls::proto::Code;
use tidegate_testbed::Http;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::stand::{Stand, Wire, descriptor, origin, request, until};

const POLICY: &str = "rules: [{ name: each, key: 'attribute:k', limit: 1/min }]";

#[tokio::test]
async fn what_cannot_be_meant_is_an_error_and_never_ok() {
    let mut stand = Stand::by_policy(POLICY).await;
    let long = "x".repeat(1_025);
    let entry: &[(&str, &str)] = &[("k", "v")];
    let mut negative = request("web", &[entry]);
    negative.descriptors[0].is_negative_hits = true;
    let mut huge = request("web", &[entry]);
    huge.descriptors[0].hits_addend = Some(1 << 32);
    let many = vec![("k", "v"); 17];
    let wide = vec![("k", &long[..1_000]); 5];
    for (asked, message) in [
        (request("", &[entry]), "the domain is empty"),
        (request("web", &[]), "there are no descriptors"),
        (request("web", &[&[]]), "a descriptor has no entries"),
        (request("web", &[&[("", "v")]]), "an entry has an empty key"),
        (request("web", &[&[("k", &long)]]), "the value of an entry has 1025 characters"),
        (request("web", &[&[(&long, "v")]]), "the key of an entry has 1025 characters"),
        (request(&long, &[entry]), "the domain has 1025 characters"),
        (request("web", &[entry; 17]), "there are 17 descriptors"),
        (request("web", &[&many]), "there are 17 entries in a descriptor"),
        (request("web", &[&wide]), "a descriptor has 5008 bytes"),
        (huge, "a descriptor adds more than 4294967295 hits"),
        (negative, "hits cannot be taken back"),
    ] {
        let error = stand.send(asked).await.unwrap_err();
        assert!(error.message().starts_with(message), "{error}");
    }
    assert_eq!(stand.passed(1, &[entry]).await, 1, "nothing was charged");
}

/// A schema counts characters, so the door does; only all of a descriptor is counted in bytes.
#[tokio::test]
async fn a_name_may_have_as_many_characters_in_any_language() {
    let mut stand = Stand::by_policy(POLICY).await;
    let (longest, longer) = ("é".repeat(256), "é".repeat(257));
    let entry: &[(&str, &str)] = &[(&longest, "v")];
    assert_eq!(stand.passed(1, &[entry]).await, 1);
    let error = stand.send(request("web", &[&[(&longer, "v")]])).await.unwrap_err();
    assert!(error.message().starts_with("the key of an entry has 257 characters"), "{error}");
}

/// In letters of two bytes it may be longer than what a policy file counts by: whoever sends such a
/// value is counted with all who do, and not let pass.
#[tokio::test]
async fn a_value_that_is_too_long_to_count_by_is_no_way_around_a_rule() {
    let mut stand = Stand::by_policy(POLICY).await;
    let (one, other) = ("é".repeat(600), "ü".repeat(600));
    let (one, other): (&[_], &[_]) = (&[("k", one.as_str())], &[("k", other.as_str())]);
    let passed = stand.passed(9, &[one]).await;
    assert_eq!(passed, 1);
    assert_eq!(stand.passed(1, &[other]).await, 0, "counted with the first");
    assert_eq!(stand.passed(1, &[&[("k", "v")]]).await, 1);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let mut stand = Stand::by_policy(POLICY).await;
    let mut asked = request("web", &[]);
    asked.descriptors = vec![descriptor(&[("k", &"x".repeat(1_000))]); 1_000];
    let error = stand.send(asked).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::OutOfRange);
    assert_eq!(stand.passed(1, &[&[("k", "v")]]).await, 1);
}

async fn health(client: &mut HealthClient<Wire>, service: &str) -> Option<ServingStatus> {
    let asked = HealthCheckRequest { service: service.to_owned() };
    client.check(asked).await.ok().map(|it| it.into_inner().status())
}

#[tokio::test]
async fn health_is_told_until_it_stops() {
    let mut stand = Stand::by_policy(POLICY).await;
    let wire = Wire::to(stand.grpc).await;
    let mut client = HealthClient::with_origin(wire.clone(), origin());
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(health(&mut client, service).await, Some(ServingStatus::Serving));
    }
    assert_eq!(health(&mut client, "another").await, None);
    let asked = HealthCheckRequest::default();
    let mut watched = client.watch(asked).await.unwrap().into_inner();
    let first = watched.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    stand.ask_to_stop();
    let last = watched.message().await.unwrap().unwrap();
    assert_eq!(last.status(), ServingStatus::NotServing);
    drop((watched, client));
    until("the connection is closed", async || wire.is_closed()).await;
    assert_eq!(stand.stop().await, Ended::Cleanly);
}

#[tokio::test]
async fn reflection_lists_the_services_and_their_files() {
    let stand = Stand::by_policy(POLICY).await;
    let mut client = ServerReflectionClient::with_origin(Wire::to(stand.grpc).await, origin());
    let asked = |message: MessageRequest| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message),
    };
    let symbol = "envoy.service.ratelimit.v3.RateLimitService".to_owned();
    let messages =
        [MessageRequest::ListServices(String::new()), MessageRequest::FileContainingSymbol(symbol)];
    let mut seen = Vec::new();
    for message in messages {
        let stream = stream_of(asked(message));
        let mut answers = client.server_reflection_info(stream).await.unwrap().into_inner();
        let answer = answers.message().await.unwrap().unwrap().message_response;
        seen.push(answer.unwrap());
    }
    let MessageResponse::ListServicesResponse(list) = &seen[0] else { panic!("{seen:?}") };
    let names: Vec<&str> = list.service.iter().map(|it| it.name.as_str()).collect();
    assert!(names.contains(&"envoy.service.ratelimit.v3.RateLimitService"), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    assert!(matches!(&seen[1], MessageResponse::FileDescriptorResponse(_)), "{:?}", seen[1]);
}

/// A stream of one message.
fn stream_of<T: Send + 'static>(message: T) -> impl tonic::IntoStreamingRequest<Message = T> {
    tonic::Request::new(tonic::codegen::tokio_stream::once(message))
}

#[tokio::test]
async fn the_same_is_asked_in_json() {
    let stand = Stand::by_policy(POLICY).await;
    let port = stand.http.port();
    let answer_to = move |body: &'static str| async move {
        tokio::task::spawn_blocking(move || Http::post(port, "/json", body)).await.unwrap().unwrap()
    };
    let body = r#"{"domain":"web","descriptors":[{"entries":[{"key":"k","value":"json"}]}]}"#;
    let first = answer_to(body).await;
    let text = String::from_utf8(first.body).unwrap();
    assert_eq!(first.status, 200, "{text}");
    for part in [r#""overallCode":"OK""#, r#""unit":"MINUTE""#, r#""durationUntilReset":"#] {
        assert!(text.contains(part), "{text}");
    }
    let second = answer_to(body).await;
    assert_eq!(second.status, 429);
    assert!(String::from_utf8(second.body).unwrap().contains(r#""overallCode":"OVER_LIMIT""#));
    for wrong in ["{", r#"{"domain":"web"}"#, r#"{"domain":"web","descriptors":[],"x":1}"#] {
        assert_eq!(answer_to(wrong).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn requests_in_flight_are_answered_when_it_stops() {
    let mut stand = Stand::by_policy(POLICY).await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut client = stand.client.clone();
        let value = number.to_string();
        asking.spawn(async move {
            let asked = request("web", &[&[("k", &value)]]);
            client.should_rate_limit(asked).await.map(|it| it.into_inner().overall_code())
        });
    }
    let first = asking.join_next().await.unwrap().unwrap();
    assert_eq!(first.unwrap(), Code::Ok);
    stand.ask_to_stop();
    while let Some(answered) = asking.join_next().await {
        // Those that were not sent yet are refused by the connection, not answered wrongly.
        if let Ok(code) = answered.unwrap() {
            assert_eq!(code, Code::Ok);
        }
    }
    let ended = tokio::time::timeout(Duration::from_secs(5), stand.stop()).await;
    assert_eq!(ended.unwrap(), Ended::Cleanly);
}
