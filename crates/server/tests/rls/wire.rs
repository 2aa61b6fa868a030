//! The door itself: what it refuses, health, reflection, JSON and how it stops.

use std::time::Duration;

use tidegate_server::rls::proto::Code;
use tidegate_server::{Ended, Guard, Tokens};
use tidegate_testbed::Http;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::stand::{Files, Stand, Wire, codes, origin, request, until};

const POLICY: &str = "rules: [{ name: each, key: 'attribute:k', limit: 1/min }]";

#[tokio::test]
async fn what_no_configuration_can_mean_is_an_error_and_never_ok() {
    let mut stand = Stand::by_policy(POLICY).await;
    let entry: &[(&str, &str)] = &[("k", "v")];
    let mut negative = request("web", &[entry]);
    negative.descriptors[0].is_negative_hits = true;
    for (asked, message) in [
        (request("", &[entry]), "the domain is empty"),
        (request("web", &[]), "there are no descriptors"),
        (negative, "hits cannot be taken back"),
    ] {
        let error = stand.send(asked).await.unwrap_err();
        assert!(error.message().starts_with(message), "{error}");
    }
    assert_eq!(stand.passed(1, &[entry]).await, 1, "nothing was charged");
}

/// Whatever a client may have a part in is judged, by files and by a policy.
#[tokio::test]
async fn what_is_long_odd_or_much_is_judged_and_never_an_error() {
    let file = "- { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }";
    let files = Files::new(file);
    for mut stand in [Stand::by_policy(POLICY).await, Stand::by_files(files.path()).await] {
        let entry: &[(&str, &str)] = &[("k", "v")];
        let (long, other) = ("x".repeat(60_000), "y".repeat(60_000));
        let wide = vec![(&*long, &*long); 8];
        let nameless = [("", "v"), ("k", "nameless")];
        for asked in [&[("k", &*long)][..], &[("k", "v"), (&long, "v")], &wide, &[], &nameless] {
            let answered = stand.send(request("web", &[entry, asked])).await.unwrap();
            assert_eq!(answered.statuses.len(), 2);
        }
        assert_eq!(stand.passed(2, &[&[("k", &long)]]).await, 0, "it was counted");
        // By a policy, all values that are too long to count by are one.
        assert!(stand.passed(2, &[&[("k", &other)]]).await <= 1);
        let mut huge = request("web", &[&[("k", "huge")]]);
        huge.descriptors[0].hits_addend = Some(1 << 32);
        assert_eq!(stand.send(huge).await.unwrap().overall_code(), Code::OverLimit);
        let mut odd = request("web", &[entry]);
        odd.descriptors[0].entries[0].value = b"\xff".into();
        assert_eq!(stand.send(odd.clone()).await.unwrap().overall_code(), Code::Ok);
        assert_eq!(stand.send(odd).await.unwrap().overall_code(), Code::OverLimit);
        stand.stop().await;
    }
}

/// More than are locked at once are judged by files; by a policy they are refused.
#[tokio::test]
async fn many_descriptors_are_judged_or_refused() {
    let files = Files::new("- { key: k, rate_limit: { unit: day, requests_per_unit: 2 } }");
    let mut stand = Stand::by_files(files.path()).await;
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let many: Vec<[(&str, &str); 1]> = names.iter().map(|name| [("k", &**name)]).collect();
    let many: Vec<&[(&str, &str)]> = many.iter().map(|it| &it[..]).collect();
    assert_eq!(stand.passed(1, &many).await, 1);
    assert_eq!(stand.passed(2, &[many[99]]).await, 1);
    let refused = stand.ask(&many).await.unwrap();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert!(codes(&refused)[..99].iter().all(|code| *code == Code::Ok));
    assert_eq!(stand.passed(2, &[many[0]]).await, 1, "a refusal is charged to nothing");
    let mut stand = Stand::by_policy(POLICY).await;
    for descriptors in [&many[..65], &many[..17]] {
        let refused = stand.ask(descriptors).await.unwrap();
        assert_eq!(refused.overall_code(), Code::OverLimit);
        assert_eq!(refused.statuses.len(), descriptors.len());
    }
    let entries = vec![("k", "v"); 65];
    assert_eq!(stand.ask(&[&entries]).await.unwrap().overall_code(), Code::OverLimit);
    assert_eq!(stand.passed(2, &[many[0]]).await, 1);
}

#[tokio::test]
async fn a_token_opens_the_door_under_either_name() {
    let tokens = Tokens::from_text("check 0123456789abcdef").unwrap();
    let guard = Guard::with_tokens(tokens);
    let any = ([127, 0, 0, 1], 0).into();
    let mut stand = Stand::with(any, POLICY, None, |settings| settings.guard = guard).await;
    for (name, token, code) in [
        ("x-other", "0123456789abcdef", Err(tonic::Code::Unauthenticated)),
        ("x-tidegate-token", "0123456789abcdeF", Err(tonic::Code::Unauthenticated)),
        ("authorization", "0123456789abcdef", Err(tonic::Code::Unauthenticated)),
        ("authorization", "Bearer 0123456789abcdef", Ok(Code::Ok)),
        ("x-tidegate-token", "0123456789abcdef", Ok(Code::OverLimit)),
    ] {
        let mut asked = tonic::Request::new(request("web", &[&[("k", "v")]]));
        asked.metadata_mut().insert(name, token.parse().unwrap());
        let answered = stand.client.should_rate_limit(asked).await;
        let answered = answered.map(|it| it.into_inner().overall_code());
        assert_eq!(answered.map_err(|status| status.code()), code, "{name}: {token}");
    }
    stand.stop().await;
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
