//! Tokens of service accounts: JSON web tokens that this server signs and only this server reads.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::hmac;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::private_file::load_or_make;

/// Who issues tokens, and whom they are for unless they say otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Whose token it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The uid of the object with which the token ends, such as the pod that it is for.
    pub(crate) bound_to: Option<String>,
}

/// Signs tokens, and reads those it signed.
pub(crate) struct Tokens(hmac::Key);

impl Tokens {
    /// The key in a directory, made if it is missing.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let secret = load_or_make(&directory.join("service-accounts.key"), || Ok(super::new_token()))?;
        Ok(Self::new(secret.trim()))
    }

    fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// A token for an account, valid until a moment.
    pub(crate) fn sign(&self, account: &Account, audiences: &Value, until: OffsetDateTime) -> String {
        let Account { namespace, name, uid, bound_to } = account;
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let claims = json!({
            "iss": ISSUER, "aud": audiences, "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": now, "nbf": now, "exp": until.unix_timestamp(), "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}, "transom/bound-to": bound_to},
        });
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = hmac::sign(&self.0, signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }

    /// Whose token this is; none if it is not one of ours, or its time is over.
    pub(crate) fn read(&self, token: &str) -> Option<Account> {
        let (signed, signature) = token.rsplit_once('.')?;
        hmac::verify(&self.0, signed.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(signed.split_once('.')?.1).ok()?).ok()?;
        let own = |path: &str| Some(claims.pointer(path)?.as_str()?.to_owned());
        // A token for somebody else is not for us to take.
        let is_for_us = claims["aud"].as_array()?.iter().any(|audience| audience == ISSUER);
        let is_valid = is_for_us && claims["exp"].as_i64()? > OffsetDateTime::now_utc().unix_timestamp();
        let account = Account {
            namespace: own("/kubernetes.io/namespace")?,
            name: own("/kubernetes.io/serviceaccount/name")?,
            uid: own("/kubernetes.io/serviceaccount/uid")?,
            bound_to: own("/kubernetes.io/transom~1bound-to"),
        };
        is_valid.then_some(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_by_who_signed_them() {
        let account = Account { namespace: "a".into(), name: "b".into(), uid: "c".into(), bound_to: Some("d".into()) };
        let (tokens, others) = (Tokens::new("one"), Tokens::new("two"));
        let soon = OffsetDateTime::now_utc() + time::Duration::minutes(10);
        let token = tokens.sign(&account, &json!([ISSUER]), soon);
        assert_eq!(tokens.read(&token), Some(account.clone()));
        assert_eq!(others.read(&token), None);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        assert_eq!(tokens.read(&format!("{signed}x.{signature}")), None);
        let old = tokens.sign(&account, &json!([ISSUER]), OffsetDateTime::now_utc() - time::Duration::minutes(1));
        assert_eq!(tokens.read(&old), None);
        let foreign = tokens.sign(&account, &json!(["https://elsewhere"]), soon);
        assert_eq!(tokens.read(&foreign), None);
        for nonsense in ["", ".", "..", "a.b.c"] {
            assert_eq!(tokens.read(nonsense), None);
        }
    }
}
