//! A key service behind a unix socket (KMS v2). The service never sees values: it seals a seed, and every value is sealed
//! with a key derived from the seed. A seed is used until the service names another key, and no longer than a few minutes
//! after the service was last heard of.

mod proto;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::cipher::{Cipher, random};
use crate::config::KmsConfig;
use crate::keyring::Opened;
use proto::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, EncryptedObject, StatusRequest, StatusResponse,
};

/// How long a seed may seal new values after the service was last healthy, as upstream.
const SEED_TTL: Duration = Duration::from_secs(180);
/// How often a healthy service is asked for its key.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(60);
/// How often a service that fails is asked.
const FAILED_INTERVAL: Duration = Duration::from_secs(10);
/// How long a health check believes the last answer.
const HEALTHY_TTL: Duration = Duration::from_secs(20);
const FAILED_TTL: Duration = Duration::from_secs(3);
const KEY_ID_BYTES_MAX: usize = 1024;
const SEALED_SEED_BYTES_MAX: usize = 1024;
const ANNOTATIONS_BYTES_MAX: usize = 32 * 1024;
/// Seeds kept in memory to open values with; each start and each rotation makes one.
const SEEDS_KEPT_MAX: usize = 1000;

/// The stored data names how its key is made: it is the sealed key itself, or derived from the sealed seed.
const SOURCE_KEY: i32 = 0;
const SOURCE_SEED: i32 = 1;

/// A connection to a key service.
pub(crate) struct Kms {
    name: String,
    prefix: String,
    timeout: Duration,
    endpoint: Endpoint,
    /// Made at first use: connecting needs a runtime, reading a configuration does not.
    channel: OnceLock<Channel>,
    current: ArcSwapOption<Current>,
    /// Seeds and keys by their sealed form.
    opened: Mutex<HashMap<[u8; 32], Arc<Cipher>>>,
    last_check: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
}

/// What new values are sealed with.
struct Current {
    cipher: Arc<Cipher>,
    /// Without data.
    object: EncryptedObject,
    expires: Instant,
}

impl Kms {
    pub fn new(config: &KmsConfig) -> Result<Self, String> {
        let timeout = config.timeout().unwrap_or_default();
        let failed =
            |error: String| format!("could not configure KMSv2-Plugin's probe {:?}, error: {error}", config.name);
        let endpoint = Endpoint::from_shared(config.endpoint.clone()).map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            name: config.name.clone(),
            prefix: format!("k8s:enc:kms:v2:{}:", config.name),
            timeout,
            endpoint: endpoint.timeout(timeout).connect_timeout(timeout),
            channel: OnceLock::new(),
            current: ArcSwapOption::empty(),
            opened: Mutex::default(),
            last_check: tokio::sync::Mutex::new(None),
        })
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Seals a value; never calls the service.
    pub fn seal(&self, value: &[u8], bound: &[u8]) -> Result<Bytes, String> {
        let current = self.current.load();
        let Some(current) = &*current else { return Err("got unexpected nil transformer".to_owned()) };
        if Instant::now() > current.expires {
            let key = hash(&current.object.key_id);
            return Err(format!("encryptedDEKSource with keyID hash {key:?} expired: the KMS plugin is not healthy"));
        }
        let encrypted_data = current.cipher.seal(value, bound).map_err(|error| self.with_name(&error))?;
        let object = EncryptedObject { encrypted_data, ..current.object.clone() };
        let mut out = Vec::with_capacity(self.prefix.len() + object.encoded_len());
        out.extend_from_slice(self.prefix.as_bytes());
        object.encode(&mut out).map_err(|error| error.to_string())?;
        Ok(out.into())
    }

    /// Opens a value; calls the service for a seed not seen before.
    pub async fn open(&self, stored: &[u8], bound: &[u8]) -> Result<Opened, String> {
        let object = EncryptedObject::decode(stored).map_err(|error| error.to_string())?;
        check_object(&object)?;
        let cipher = match self.known(&source_id(&object)) {
            Some(cipher) => cipher,
            None => self.unseal(&object).await?,
        };
        let value = cipher.open(&object.encrypted_data, bound).map_err(|error| self.with_name(&error))?;
        let current = self.current.load();
        let stale = current.as_ref().is_none_or(|current| {
            current.object.key_id != object.key_id || object.encrypted_dek_source_type != SOURCE_SEED
        });
        Ok(Opened { value: value.into(), stale })
    }

    async fn unseal(&self, object: &EncryptedObject) -> Result<Arc<Cipher>, String> {
        let request = DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone().into_iter().collect(),
        };
        let answer: DecryptResponse = self
            .call(proto::DECRYPT, request)
            .await
            .map_err(|error| format!("failed to decrypt DEK, error: {error}"))?;
        let cipher = match object.encrypted_dek_source_type {
            SOURCE_SEED => Cipher::seed(&answer.plaintext),
            _ => Cipher::aes_gcm(&answer.plaintext),
        };
        let cipher = Arc::new(cipher.map_err(|error| self.with_name(&error))?);
        self.remember(object, &cipher);
        Ok(cipher)
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Cipher>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, id: &[u8; 32]) -> Option<Arc<Cipher>> {
        self.opened().get(id).cloned()
    }

    fn remember(&self, object: &EncryptedObject, cipher: &Arc<Cipher>) {
        let mut opened = self.opened();
        if opened.len() >= SEEDS_KEPT_MAX {
            opened.clear();
        }
        opened.insert(source_id(object), cipher.clone());
    }

    fn with_name(&self, error: &crate::cipher::CipherError) -> String {
        format!("{error} (KMS provider {:?})", self.name)
    }

    /// Asks the service how it is and which key it uses; a new key means a new seed. Believes a recent answer.
    pub async fn check(&self) -> Result<(), String> {
        let mut last = self.last_check.lock().await;
        if let Some((at, result)) = &*last {
            let ttl = if result.is_ok() { HEALTHY_TTL } else { FAILED_TTL };
            if at.elapsed() < ttl {
                return result.clone();
            }
        }
        let result = self.probe().await;
        *last = Some((Instant::now(), result.clone()));
        result
    }

    /// As [`Kms::check`], whatever the last answer was.
    pub async fn check_now(&self) -> Result<(), String> {
        let mut last = self.last_check.lock().await;
        let result = self.probe().await;
        *last = Some((Instant::now(), result.clone()));
        result
    }

    async fn probe(&self) -> Result<(), String> {
        let name = &self.name;
        let status: StatusResponse = self.call(proto::STATUS, StatusRequest {}).await.map_err(|error| {
            format!("failed to perform status section of the healthz check for KMS Provider {name}, error: {error}")
        })?;
        let unhealthy = |error: String| format!("kmsv2 Provider {name} is not healthy, error: {error}");
        if status.healthz != "ok" {
            return Err(unhealthy(format!("got unexpected healthz status: {}", status.healthz)));
        }
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            return Err(unhealthy(format!("expected KMSv2 API version v2, got {}", status.version)));
        }
        check_key_id(&status.key_id)
            .map_err(|error| unhealthy(format!("got invalid KMSv2 KeyID hash {:?}: {error}", hash(&status.key_id))))?;
        self.follow_key(&status.key_id).await.map_err(unhealthy)
    }

    /// Goes on with the seed in use if it is sealed by `key_id`, otherwise makes one.
    async fn follow_key(&self, key_id: &str) -> Result<(), String> {
        let expires = Instant::now() + SEED_TTL;
        if let Some(current) = &*self.current.load()
            && current.object.key_id == key_id
        {
            let (cipher, object) = (current.cipher.clone(), current.object.clone());
            self.current.store(Some(Arc::new(Current { cipher, object, expires })));
            return Ok(());
        }
        let failed =
            |error: String| format!("failed to rotate DEK, statusKeyIDHash={:?}, error: {error}", hash(key_id));
        let seed = random::<32>().map_err(|error| failed(error.to_string()))?;
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uuid::Uuid::new_v4().to_string() };
        let answer: EncryptResponse = self
            .call(proto::ENCRYPT, request)
            .await
            .map_err(|error| failed(format!("failed to encrypt DEK, error: {error}")))?;
        if answer.key_id != key_id {
            return Err(failed(format!("the plugin encrypted with keyID hash {:?}", hash(&answer.key_id))));
        }
        let object = EncryptedObject {
            encrypted_data: vec![0],
            key_id: answer.key_id,
            encrypted_dek_source: answer.ciphertext,
            annotations: answer.annotations.into_iter().collect::<BTreeMap<_, _>>(),
            encrypted_dek_source_type: SOURCE_SEED,
        };
        check_object(&object).map_err(failed)?;
        let cipher = Arc::new(Cipher::seed(&seed).map_err(|error| failed(error.to_string()))?);
        self.remember(&object, &cipher);
        self.current.store(Some(Arc::new(Current { cipher, object, expires })));
        tracing::info!(provider = self.name, "the KMS provider's key is in use");
        Ok(())
    }

    /// Follows the service until the keyring is dropped.
    pub async fn follow(kms: std::sync::Weak<Self>) {
        loop {
            let Some(this) = kms.upgrade() else { return };
            let result = this.check_now().await;
            if let Err(error) = &result {
                tracing::error!(provider = this.name, error, "kms plugin failed health check probe");
            }
            drop(this);
            tokio::time::sleep(if result.is_ok() { HEALTHY_INTERVAL } else { FAILED_INTERVAL }).await;
        }
    }

    async fn call<Q, R>(&self, path: &'static str, request: Q) -> Result<R, String>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let channel = self.channel.get_or_init(|| self.endpoint.connect_lazy()).clone();
        let work = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| format!("the plugin cannot be reached: {error}"))?;
            let codec: ProstCodec<Q, R> = ProstCodec::default();
            let path = PathAndQuery::from_static(path);
            let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
        };
        match tokio::time::timeout(self.timeout, work).await {
            Ok(answer) => answer,
            Err(_) => Err("context deadline exceeded".to_owned()),
        }
    }
}

/// What tells sealed seeds apart.
fn source_id(object: &EncryptedObject) -> [u8; 32] {
    let source = EncryptedObject { encrypted_data: Vec::new(), ..object.clone() };
    Sha256::digest(source.encode_to_vec()).into()
}

fn check_object(object: &EncryptedObject) -> Result<(), String> {
    if !matches!(object.encrypted_dek_source_type, SOURCE_KEY | SOURCE_SEED) {
        return Err(format!("unknown encryptedDEKSourceType: {}", object.encrypted_dek_source_type));
    }
    if object.encrypted_data.is_empty() {
        return Err("encrypted data is empty".to_owned());
    }
    match object.encrypted_dek_source.len() {
        0 => return Err("failed to validate encrypted DEK source: encrypted DEK source is empty".to_owned()),
        length if length > SEALED_SEED_BYTES_MAX => {
            return Err(format!(
                "failed to validate encrypted DEK source: encrypted DEK source is {length} bytes, which exceeds the max \
                 size of {SEALED_SEED_BYTES_MAX}"
            ));
        }
        _ => {}
    }
    check_key_id(&object.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
    let annotations: usize = object.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if annotations > ANNOTATIONS_BYTES_MAX {
        return Err(format!(
            "failed to validate annotations: total size of annotations is {annotations}, which exceeds the max size of \
             {ANNOTATIONS_BYTES_MAX}"
        ));
    }
    Ok(())
}

fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > KEY_ID_BYTES_MAX => {
            Err(format!("keyID is {length} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

/// A key's name in messages, as upstream shows it.
fn hash(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    Sha256::digest(key_id).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
