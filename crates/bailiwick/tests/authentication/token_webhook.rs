//! A token webhook over HTTPS: asked once about each token, believed, and shown our credentials.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Asked, Said, Server, Webhook};
use serde_json::{Value, json};

use crate::login::{client, known, who};

/// What the webhook was asked.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    last: Mutex<Option<(String, Value)>>,
}

fn answer(asked: &Asked, seen: &Seen) -> Said {
    let mut review = asked.body.clone();
    seen.calls.fetch_add(1, Ordering::SeqCst);
    if let Ok(mut last) = seen.last.lock() {
        *last = Some((asked.authorization().to_owned(), review.clone()));
    }
    review["status"] = match asked.body["spec"]["token"].as_str().unwrap_or_default() {
        "good" => json!({"authenticated": true, "user": {
            "username": "walter", "uid": "w", "groups": ["hooked"], "extra": {"acme.com/a": ["b"]}}}),
        "other-audience" => json!({"authenticated": true, "user": {"username": "o"}, "audiences": ["elsewhere"]}),
        "explained" => json!({"authenticated": false, "error": "token was revoked"}),
        "broken" => return Said::Failure(400, "out of order"),
        _ => json!({"authenticated": false}),
    };
    review.into()
}

#[test]
fn a_webhook_knows_tokens_that_we_do_not() -> Result<()> {
    let seen = Arc::new(Seen::default());
    let webhook = Webhook::start({
        let seen = seen.clone();
        move |asked| {
            let answer = answer(&asked, &seen);
            async move { answer }
        }
    })?;
    let directory = tempfile::tempdir()?;
    let config = webhook.write_kubeconfig(directory.path(), "/authenticate", json!({"tokenFile": "token"}))?;
    std::fs::write(directory.path().join("token"), "our-own-token\n")?;
    let server = Server::start_with(
        env!("CARGO_BIN_EXE_bailiwick"),
        &[
            "--authentication-token-webhook-config-file",
            config.to_str().context("a path in UTF-8")?,
            "--authentication-token-webhook-version",
            "v1",
            "--api-audiences",
            "us",
        ],
    )?;
    let calls = || seen.calls.load(Ordering::SeqCst);

    let user = known(&server, "good")?;
    assert_eq!((&user["username"], &user["uid"]), (&json!("walter"), &json!("w")));
    assert_eq!(user["groups"], json!(["hooked", "system:authenticated"]));
    assert_eq!(user["extra"]["acme.com/a"], json!(["b"]));
    let (shown, review) = seen.last.lock().expect("not poisoned").clone().context("it was asked")?;
    assert_eq!(shown, "Bearer our-own-token");
    assert_eq!(review["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(review["spec"], json!({"token": "good", "audiences": ["us"]}));
    known(&server, "good")?;
    assert_eq!(calls(), 1, "the answer is remembered");

    for (token, calls_each) in [("bad", [1, 0]), ("other-audience", [1, 0]), ("explained", [1, 1]), ("broken", [1, 1])]
    {
        for more in calls_each {
            let before = calls();
            assert_eq!(who(&server, token)?, Err(401), "{token}");
            assert_eq!(calls() - before, more, "{token}: refusals are remembered, failures to answer are not");
        }
    }

    let before = calls();
    known(&server, ADMIN_TOKEN)?;
    assert_eq!(calls(), before, "nobody else is asked about a token we know");

    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "explained"}});
    let url = format!("{}/apis/authentication.k8s.io/v1/tokenreviews", server.url());
    let answer: Value = client(&server)?.post(url).bearer_auth(ADMIN_TOKEN).json(&review).send()?.json()?;
    let error = answer["status"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains("token was revoked"), "{answer}");
    Ok(())
}
