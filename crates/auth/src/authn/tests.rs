//! The union of authenticators: first match wins, bad credentials are never anonymity.

use super::*;

/// Answers what it is told to.
struct Fixed(Result<Option<&'static str>, &'static str>);

impl Authenticator for Fixed {
    fn authenticate(&self, _: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let named = |name: &str| Arc::new(UserInfo { name: name.into(), ..UserInfo::default() });
        match self.0 {
            Ok(name) => Ok(name.map(|name| Authentication { user: named(name), audiences: Vec::new() })),
            Err(error) => Err(error.into()),
        }
    }
}

async fn ask(
    chain: &[Result<Option<&'static str>, &'static str>],
    token: Option<&str>,
    anonymous: Anonymous,
) -> Result<UserInfo, String> {
    let chain = chain.iter().map(|answer| Box::new(Fixed(*answer)) as Box<dyn Authenticator>).collect();
    let request = AuthRequest {
        bearer_token: token,
        peer: None,
        headers: None,
        path: "/livez",
        audiences: TargetAudiences::Server,
        now: Timestamp::UNIX_EPOCH,
    };
    let answer = RequestAuthenticator::new(chain, anonymous).authenticate(&request).await;
    answer.map(|a| UserInfo::clone(&a.user)).map_err(|e| e.to_string())
}

#[tokio::test]
async fn the_first_that_knows_the_caller_wins_whatever_others_say() {
    let chain = [Err("bad"), Ok(None), Ok(Some("first")), Ok(Some("second"))];
    let user = ask(&chain, Some("t"), Anonymous::Allowed).await.expect("known");
    assert_eq!((user.name.as_str(), user.groups), ("first", vec!["system:authenticated".to_owned()]));
}

#[tokio::test]
async fn no_credentials_is_anonymous_only_where_allowed() {
    let user = ask(&[Ok(None)], None, Anonymous::Allowed).await.expect("anonymous");
    assert_eq!(user, UserInfo::anonymous());
    assert_eq!(ask(&[Ok(None)], None, Anonymous::Refused).await, Err("no credentials provided".into()));
}

/// The texts are those of TokenReviews by kube-apiserver 1.36.4.
#[tokio::test]
async fn a_token_nobody_knows_is_refused() {
    assert_eq!(ask(&[Ok(None)], Some("t"), Anonymous::Allowed).await, Err("invalid bearer token".into()));
    assert_eq!(
        ask(&[Err("expired"), Err("expired"), Err("other")], Some("t"), Anonymous::Allowed).await,
        Err("[invalid bearer token, expired, other]".into())
    );
}

#[tokio::test]
async fn a_bad_certificate_is_refused() {
    assert_eq!(ask(&[Err("bad certificate")], None, Anonymous::Allowed).await, Err("bad certificate".into()));
}
