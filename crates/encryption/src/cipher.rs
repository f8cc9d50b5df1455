//! The ciphers, in upstream's layouts: a fresh nonce, then the ciphertext.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, KeyInit};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;
use hkdf::Hkdf;
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::Sha256;

const GCM_NONCE_BYTES: usize = 12;
const CBC_BLOCK_BYTES: usize = 16;
const SECRETBOX_NONCE_BYTES: usize = 24;
const SECRETBOX_TAG_BYTES: usize = 16;
/// What goes into deriving a key from a seed: as long as the key.
const INFO_BYTES: usize = 32;

/// Why a value could not be opened or sealed. Says nothing of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    #[error("the stored data was shorter than the required size")]
    TooShort,
    #[error("cipher: message authentication failed")]
    Forged,
    #[error("invalid padding on input")]
    Padding,
    #[error("the key has {0} bytes, which the cipher cannot use")]
    KeyLength(usize),
    #[error("no random bytes can be had")]
    Random,
}

/// A key with the way to use it.
pub enum Cipher {
    Aes128Gcm(Box<Aes128Gcm>),
    Aes192Gcm(Box<AesGcm<Aes192, U12>>),
    Aes256Gcm(Box<Aes256Gcm>),
    /// The key itself: the cipher is set up anew for every value.
    AesCbc(Vec<u8>),
    Secretbox(Box<XSalsa20Poly1305>),
    /// AES-256-GCM with a key derived for every value.
    Seed(Vec<u8>),
}

/// `N` fresh random bytes.
pub fn random<const N: usize>() -> Result<[u8; N], CipherError> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|_| CipherError::Random)?;
    Ok(bytes)
}

impl Cipher {
    pub fn aes_gcm(key: &[u8]) -> Result<Self, CipherError> {
        let bad = |_| CipherError::KeyLength(key.len());
        Ok(match key.len() {
            16 => Self::Aes128Gcm(Box::new(Aes128Gcm::new_from_slice(key).map_err(bad)?)),
            24 => Self::Aes192Gcm(Box::new(AesGcm::new_from_slice(key).map_err(bad)?)),
            _ => Self::Aes256Gcm(Box::new(Aes256Gcm::new_from_slice(key).map_err(bad)?)),
        })
    }

    pub fn aes_cbc(key: &[u8]) -> Result<Self, CipherError> {
        match key.len() {
            16 | 24 | 32 => Ok(Self::AesCbc(key.to_owned())),
            length => Err(CipherError::KeyLength(length)),
        }
    }

    pub fn secretbox(key: &[u8]) -> Result<Self, CipherError> {
        let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| CipherError::KeyLength(key.len()))?;
        Ok(Self::Secretbox(Box::new(cipher)))
    }

    /// A seed from which a key is derived for every value (HKDF expand, SHA-256).
    pub fn seed(seed: &[u8]) -> Result<Self, CipherError> {
        if seed.len() < INFO_BYTES {
            return Err(CipherError::KeyLength(seed.len()));
        }
        Ok(Self::Seed(seed.to_owned()))
    }

    /// Encrypts. `bound` is authenticated along with the value where the cipher can.
    pub fn seal(&self, plain: &[u8], bound: &[u8]) -> Result<Vec<u8>, CipherError> {
        match self {
            Self::Aes128Gcm(cipher) => seal_gcm(&**cipher, plain, bound),
            Self::Aes192Gcm(cipher) => seal_gcm(&**cipher, plain, bound),
            Self::Aes256Gcm(cipher) => seal_gcm(&**cipher, plain, bound),
            Self::AesCbc(key) => {
                let iv = random::<CBC_BLOCK_BYTES>()?;
                let sealed = match key.len() {
                    16 => cbc::Encryptor::<Aes128>::new_from_slices(key, &iv)
                        .map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(plain)),
                    24 => cbc::Encryptor::<Aes192>::new_from_slices(key, &iv)
                        .map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(plain)),
                    _ => cbc::Encryptor::<Aes256>::new_from_slices(key, &iv)
                        .map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(plain)),
                };
                let sealed = sealed.map_err(|_| CipherError::KeyLength(key.len()))?;
                Ok([iv.as_slice(), &sealed].concat())
            }
            Self::Secretbox(cipher) => {
                let nonce = random::<SECRETBOX_NONCE_BYTES>()?;
                let sealed = cipher.encrypt(&nonce.into(), plain).map_err(|_| CipherError::Forged)?;
                Ok([nonce.as_slice(), &sealed].concat())
            }
            Self::Seed(seed) => {
                let info = random::<INFO_BYTES>()?;
                let sealed = derived(seed, &info)?.seal(plain, bound)?;
                Ok([info.as_slice(), &sealed].concat())
            }
        }
    }

    /// Decrypts what [`Cipher::seal`] made of the same `bound`.
    pub fn open(&self, sealed: &[u8], bound: &[u8]) -> Result<Vec<u8>, CipherError> {
        match self {
            Self::Aes128Gcm(cipher) => open_gcm(&**cipher, sealed, bound),
            Self::Aes192Gcm(cipher) => open_gcm(&**cipher, sealed, bound),
            Self::Aes256Gcm(cipher) => open_gcm(&**cipher, sealed, bound),
            Self::AesCbc(key) => {
                let (iv, sealed) = sealed.split_at_checked(CBC_BLOCK_BYTES).ok_or(CipherError::TooShort)?;
                let opened = match key.len() {
                    16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv)
                        .map(|c| c.decrypt_padded_vec_mut::<Pkcs7>(sealed)),
                    24 => cbc::Decryptor::<Aes192>::new_from_slices(key, iv)
                        .map(|c| c.decrypt_padded_vec_mut::<Pkcs7>(sealed)),
                    _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv)
                        .map(|c| c.decrypt_padded_vec_mut::<Pkcs7>(sealed)),
                };
                opened.map_err(|_| CipherError::KeyLength(key.len()))?.map_err(|_| CipherError::Padding)
            }
            Self::Secretbox(cipher) => {
                if sealed.len() < SECRETBOX_NONCE_BYTES + SECRETBOX_TAG_BYTES {
                    return Err(CipherError::TooShort);
                }
                let (nonce, sealed) = sealed.split_at(SECRETBOX_NONCE_BYTES);
                cipher.decrypt(nonce.into(), sealed).map_err(|_| CipherError::Forged)
            }
            Self::Seed(seed) => {
                let (info, sealed) = sealed.split_at_checked(INFO_BYTES).ok_or(CipherError::TooShort)?;
                derived(seed, info)?.open(sealed, bound)
            }
        }
    }
}

fn seal_gcm<C: Aead<NonceSize = U12>>(cipher: &C, plain: &[u8], bound: &[u8]) -> Result<Vec<u8>, CipherError> {
    let nonce = random::<GCM_NONCE_BYTES>()?;
    let payload = Payload { msg: plain, aad: bound };
    let sealed = cipher.encrypt(&nonce.into(), payload).map_err(|_| CipherError::Forged)?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn open_gcm<C: Aead<NonceSize = U12>>(cipher: &C, sealed: &[u8], bound: &[u8]) -> Result<Vec<u8>, CipherError> {
    let (nonce, sealed) = sealed.split_first_chunk::<GCM_NONCE_BYTES>().ok_or(CipherError::TooShort)?;
    let payload = Payload { msg: sealed, aad: bound };
    cipher.decrypt(&(*nonce).into(), payload).map_err(|_| CipherError::Forged)
}

fn derived(seed: &[u8], info: &[u8]) -> Result<Cipher, CipherError> {
    let expander = Hkdf::<Sha256>::from_prk(seed).map_err(|_| CipherError::KeyLength(seed.len()))?;
    let mut key = [0; 32];
    expander.expand(info, &mut key).map_err(|_| CipherError::KeyLength(seed.len()))?;
    Cipher::aes_gcm(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Cipher> {
        let key = |length| vec![7; length];
        let mut ciphers: Vec<Cipher> = Vec::new();
        for length in [16, 24, 32] {
            ciphers.push(Cipher::aes_gcm(&key(length)).expect("a key"));
            ciphers.push(Cipher::aes_cbc(&key(length)).expect("a key"));
        }
        ciphers.push(Cipher::secretbox(&key(32)).expect("a key"));
        ciphers.push(Cipher::seed(&key(32)).expect("a seed"));
        ciphers
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_sealed_opens_again(plain in proptest::collection::vec(any::<u8>(), 0..200)) {
            for cipher in all() {
                let sealed = cipher.seal(&plain, b"key").expect("sealed");
                prop_assert_eq!(cipher.open(&sealed, b"key").expect("opened"), plain.clone());
            }
        }

        #[test]
        fn any_bytes_open_or_do_not(sealed in proptest::collection::vec(any::<u8>(), 0..100)) {
            for cipher in all() {
                let _ = cipher.open(&sealed, b"key");
            }
        }
    }

    #[test]
    fn a_value_moved_to_another_key_does_not_open() {
        for cipher in all().into_iter().filter(|c| !matches!(c, Cipher::AesCbc(_) | Cipher::Secretbox(_))) {
            let sealed = cipher.seal(b"value", b"one").expect("sealed");
            assert_eq!(cipher.open(&sealed, b"other"), Err(CipherError::Forged));
        }
    }

    #[test]
    fn equal_values_look_different() {
        for cipher in all() {
            assert_ne!(cipher.seal(b"value", b"").expect("sealed"), cipher.seal(b"value", b"").expect("sealed"));
        }
    }
}
