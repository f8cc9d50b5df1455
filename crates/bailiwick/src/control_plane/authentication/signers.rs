//! Signers of certificates under names of your own, each with an authority of its own.

use std::path::PathBuf;
use std::str::FromStr;

use bailiwick_auth::pki::CertificateAuthority;

use super::super::{Error, read};

/// A signer name and the files of the authority that signs for it: `NAME=CERTFILE,KEYFILE` on command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomSigner {
    pub name: String,
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl FromStr for CustomSigner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, files)| Some((name, files.split_once(',')?)));
        let (name, (certificate, key)) = parts.ok_or_else(|| format!("{text:?} is not NAME=CERTFILE,KEYFILE"))?;
        if name.starts_with("kubernetes.io/") || !name.contains('/') {
            return Err(format!("{name:?} is no name for a signer of your own, such as example.com/mine"));
        }
        Ok(Self { name: name.to_owned(), certificate_file: certificate.into(), key_file: key.into() })
    }
}

impl CustomSigner {
    /// The signer's name and its authority.
    pub fn load(&self) -> Result<(String, CertificateAuthority), Error> {
        let authority = CertificateAuthority::from_pem(&read(&self.certificate_file)?, &read(&self.key_file)?)
            .map_err(|error| Error::Authentication(format!("signer {}: {error}", self.name)))?;
        Ok((self.name.clone(), authority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_has_a_name_of_its_own_and_two_files() {
        let signer: CustomSigner = "example.com/mine=ca.crt,ca.key".parse().expect("well-formed");
        assert_eq!(signer.name, "example.com/mine");
        for bad in ["example.com/mine", "example.com/mine=ca.crt", "mine=a,b", "kubernetes.io/kubelet-serving=a,b"] {
            assert!(bad.parse::<CustomSigner>().is_err(), "{bad}");
        }
    }
}
