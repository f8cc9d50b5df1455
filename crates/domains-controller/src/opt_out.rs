//! Names that must not be looked at, because their owners asked for it: the ConfigMap `opt-out` in the service's namespace,
//! one name in each line of any of its values. A name stands for everything below it too.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use bailiwick_domains::name::DomainName;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

use crate::access::SERVICE_NAMESPACE;

/// The ConfigMap.
pub const OPT_OUT: &str = "opt-out";

/// The names.
pub(crate) struct OptOut {
    names: RwLock<HashSet<DomainName>>,
    synced: watch::Sender<bool>,
}

impl Default for OptOut {
    fn default() -> Self {
        Self { names: RwLock::default(), synced: watch::Sender::new(false) }
    }
}

impl OptOut {
    /// The name on the list that covers `name`.
    pub fn covers(&self, name: &DomainName) -> Option<DomainName> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            return None;
        }
        let text = name.as_str();
        let ancestors = std::iter::successors(Some(text), |rest| rest.split_once('.').map(|(_, above)| above));
        ancestors.filter_map(|ancestor| DomainName::parse(ancestor).ok()).find(|ancestor| names.contains(ancestor))
    }

    /// Takes the list from its object; a line that is no name is no entry.
    fn replace(&self, map: Option<&ConfigMap>) {
        let values = map.and_then(|map| map.data.as_ref()).into_iter().flat_map(|data| data.values());
        let lines =
            values.flat_map(|value| value.lines()).map(|line| line.split('#').next().unwrap_or_default().trim());
        let names = lines.filter(|line| !line.is_empty()).filter_map(|line| DomainName::parse(line).ok()).collect();
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Follows the object for ever.
    pub async fn follow(&self, client: Client) {
        let api: Api<ConfigMap> = Api::namespaced(client, SERVICE_NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={OPT_OUT}"));
        let mut events = watcher(api, only).default_backoff().boxed();
        let mut listed = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut listed),
                Err(error) if *self.synced.borrow() => tracing::debug!(%error, "the opt-out list cannot be read"),
                Err(error) => tracing::warn!(%error, "nothing is looked at before the opt-out list can be read"),
            }
        }
    }

    /// Takes what a watch tells. A list that is read anew replaces the old one when it is there whole, or known to be gone.
    fn take(&self, event: Event<ConfigMap>, listed: &mut Option<ConfigMap>) {
        match event {
            Event::Init => *listed = None,
            Event::InitApply(map) => *listed = Some(map),
            Event::InitDone => {
                self.replace(listed.take().as_ref());
                self.synced.send_replace(true);
            }
            Event::Apply(map) => self.replace(Some(&map)),
            Event::Delete(_) => self.replace(None),
        }
    }

    /// Returns once the list is known.
    pub async fn synced(&self) {
        // The sender is our own and does not go before us.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_list_covers_what_is_below_it() {
        let list = OptOut::default();
        let data = [("list".to_owned(), "# asked on 2026-11-02\nexample.com  # by mail\n\nnot a name\n".to_owned())];
        list.replace(Some(&ConfigMap { data: Some(data.into()), ..ConfigMap::default() }));
        let covers = |name: &str| list.covers(&DomainName::parse(name).expect("a name")).map(|name| name.to_string());
        assert_eq!(covers("www.example.com").as_deref(), Some("example.com"));
        assert_eq!(covers("example.com").as_deref(), Some("example.com"));
        assert_eq!(covers("myexample.com"), None);
        list.replace(None);
        assert_eq!(covers("example.com"), None);
    }
    fn map(lines: &str) -> ConfigMap {
        ConfigMap { data: Some([("list".to_owned(), lines.to_owned())].into()), ..ConfigMap::default() }
    }

    #[test]
    fn the_list_is_known_once_it_was_read_whole_and_stays_while_it_is_read_anew() {
        let (list, mut listed) = (OptOut::default(), None);
        let name = DomainName::parse("example.com").expect("a name");
        list.take(Event::Init, &mut listed);
        list.take(Event::InitApply(map("example.com")), &mut listed);
        assert!(!*list.synced.borrow());
        list.take(Event::InitDone, &mut listed);
        assert!(*list.synced.borrow() && list.covers(&name).is_some());
        list.take(Event::Init, &mut listed);
        assert!(list.covers(&name).is_some(), "not forgotten meanwhile");
        list.take(Event::InitDone, &mut listed);
        assert!(list.covers(&name).is_none(), "it was deleted while nobody watched");
    }
}
