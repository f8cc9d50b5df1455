//! The static token file of `--token-auth-file`: lines of `token,user,uid,"group1,group2"`.
//!
//! Tokens are kept and looked up by their hash, so that neither memory nor timing gives one away.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use ring::digest::{SHA256, digest};

use super::csv::{self, CsvError};
use super::{AuthRequest, Authentication, Authenticator, audiences_of_agnostic, ensure_authenticated_group};

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Malformed(String),
    #[error("token file '{path}' must have at least 3 columns (token, user name, user uid), found {found}")]
    TooFewColumns { path: PathBuf, found: usize },
}

impl From<CsvError> for TokenFileError {
    fn from(error: CsvError) -> Self {
        Self::Malformed(error.to_string())
    }
}

type TokenHash = [u8; 32];

/// Knows the users of a token file.
pub struct TokenFile {
    users: HashMap<TokenHash, Arc<UserInfo>>,
    audiences: Vec<String>,
}

impl TokenFile {
    /// Reads a file. `audiences` are the server's own.
    pub fn load(path: &Path, audiences: Vec<String>) -> Result<Self, TokenFileError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| TokenFileError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path, audiences)
    }

    fn parse(text: &str, path: &Path, audiences: Vec<String>) -> Result<Self, TokenFileError> {
        /// token, user name, user uid
        const REQUIRED_COLUMNS: usize = 3;
        let mut users = HashMap::new();
        for (index, record) in csv::records(text)?.into_iter().enumerate() {
            let found = record.len();
            let mut columns = record.into_iter();
            let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next()) else {
                debug_assert!(found < REQUIRED_COLUMNS);
                return Err(TokenFileError::TooFewColumns { path: path.to_owned(), found });
            };
            let record_number = index + 1;
            if token.is_empty() {
                tracing::warn!(path = %path.display(), record_number, "empty token in token file");
                continue;
            }
            let groups = columns.next().map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default();
            let mut user = Arc::new(UserInfo { name, uid, groups, ..UserInfo::default() });
            ensure_authenticated_group(&mut user);
            if users.insert(hash(&token), user).is_some() {
                tracing::warn!(path = %path.display(), record_number, "duplicate token in token file");
            }
        }
        Ok(Self { users, audiences })
    }
}

fn hash(token: &str) -> TokenHash {
    let mut out = TokenHash::default();
    out.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    out
}

impl Authenticator for TokenFile {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let Some(user) = request.bearer_token.and_then(|token| self.users.get(&hash(token))) else { return Ok(None) };
        let audiences = audiences_of_agnostic(&self.audiences, request.audiences);
        Ok(audiences.map(|audiences| Authentication { user: user.clone(), audiences }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::TargetAudiences;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<TokenFile, TokenFileError> {
        TokenFile::parse(text, Path::new("tokens.csv"), vec!["us".into()])
    }

    fn ask(file: &TokenFile, token: &str, audiences: TargetAudiences<'_>) -> Option<Authentication> {
        let request = AuthRequest {
            bearer_token: Some(token),
            peer: None,
            headers: None,
            path: "",
            audiences,
            now: Timestamp::UNIX_EPOCH,
        };
        file.authenticate(&request).expect("a token file never errs")
    }

    #[test]
    fn users_are_known_by_token() {
        let file = parse("t1,alice,u1,\"dev,qa\"\nt2,bob,u2\n,nobody,u3\n").expect("parses");
        let alice = ask(&file, "t1", TargetAudiences::Server).expect("known").user;
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "u1"));
        assert_eq!(alice.groups, ["dev", "qa", "system:authenticated"]);
        assert_eq!(ask(&file, "t2", TargetAudiences::Server).expect("known").user.groups, ["system:authenticated"]);
        assert!(ask(&file, "t3", TargetAudiences::Server).is_none());
        assert!(ask(&file, "", TargetAudiences::Server).is_none(), "an empty token in the file lets nobody in");
    }

    #[test]
    fn the_last_of_duplicate_tokens_holds() {
        let file = parse("t,alice,1\nt,bob,2\n").expect("parses");
        assert_eq!(ask(&file, "t", TargetAudiences::Server).expect("known").user.name, "bob");
    }

    #[test]
    fn tokens_are_good_for_our_audiences_only() {
        let file = parse("t,alice,1\n").expect("parses");
        let named = ["them".to_owned(), "us".to_owned()];
        assert_eq!(ask(&file, "t", TargetAudiences::Named(&named)).expect("known").audiences, ["us"]);
        assert!(ask(&file, "t", TargetAudiences::Named(&named[..1])).is_none());
    }

    #[test]
    fn short_lines_are_refused() {
        let error = parse("t,alice\n").err().expect("refused").to_string();
        assert_eq!(error, "token file 'tokens.csv' must have at least 3 columns (token, user name, user uid), found 2");
    }

    proptest! {
        #[test]
        fn any_file_is_loaded_or_refused(text in "[a-c,\"\r\n]*") {
            let _ = parse(&text);
        }
    }
}
