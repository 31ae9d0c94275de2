//! A certificate authority of our own, and the two certificates it signs.

use std::io;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::private_file::{load_or_make, write};

/// How long certificates hold. The authority outlives what it signs, which is signed anew at every start.
const AUTHORITY_YEARS: i64 = 10;
const SIGNED_DAYS: i64 = 365;

/// Certificates and keys as PEM texts.
pub(crate) struct Certificates {
    pub(super) authority: String,
    server: String,
    server_key: String,
    pub(super) admin: String,
    pub(super) admin_key: String,
}

impl Certificates {
    pub(super) fn open(directory: &Path, names: &[String]) -> io::Result<Self> {
        let key = load_or_make(&directory.join("ca.key"), || Ok(new_key()?.serialize_pem()))?;
        let key = KeyPair::from_pem(&key).map_err(io::Error::other)?;
        let authority =
            load_or_make(&directory.join("ca.crt"), || Ok(authority_params().self_signed(&key).map_err(io::Error::other)?.pem()))?;
        let issuer = Issuer::new(authority_params(), key);
        let (server, server_key) = signed(&issuer, names.to_vec(), "kube-apiserver", None)?;
        let (admin, admin_key) = signed(&issuer, Vec::new(), "kubernetes-admin", Some("system:masters"))?;
        for (name, text) in [("admin.crt", &admin), ("admin.key", &admin_key)] {
            write(&directory.join(name), text)?;
        }
        Ok(Self { authority, server, server_key, admin, admin_key })
    }

    pub(super) fn authority_der(&self) -> io::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.authority.as_bytes()).map_err(io::Error::other)
    }

    pub(super) fn server_der(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let certificate = CertificateDer::from_pem_slice(self.server.as_bytes()).map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes()).map_err(io::Error::other)?;
        Ok((vec![certificate, self.authority_der()?], key))
    }
}

fn new_key() -> io::Result<KeyPair> {
    KeyPair::generate().map_err(io::Error::other)
}

/// Clocks differ, so what is valid from now on was valid a while ago.
fn valid_for(params: &mut CertificateParams, duration: Duration) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + duration;
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    valid_for(&mut params, Duration::days(365 * AUTHORITY_YEARS));
    params.distinguished_name.push(DnType::CommonName, "transom");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn signed(issuer: &Issuer<'_, KeyPair>, names: Vec<String>, common_name: &str, group: Option<&str>) -> io::Result<(String, String)> {
    let is_server = !names.is_empty();
    let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
    valid_for(&mut params, Duration::days(SIGNED_DAYS));
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![if is_server { ExtendedKeyUsagePurpose::ServerAuth } else { ExtendedKeyUsagePurpose::ClientAuth }];
    let key = new_key()?;
    let certificate = params.signed_by(&key, issuer).map_err(io::Error::other)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
