//! All objects of one resource in memory, in key order, and the watchers that follow them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Waker;

use bailiwick_machinery::resource::SelectableField;
use bailiwick_store::{self as store, Change, KeyRange, KeyValue, RangeResponse, Revision};
use bytes::Bytes;
use imbl::OrdMap;

use super::base::is_tombstone;
use super::{BaseObjects, Event, Filter, KeyLayout, Object, QueueLimits, Watcher};
use crate::wake;

/// What a cache must know of its resource.
#[derive(Clone, Debug)]
pub struct CacheSpec {
    /// The key prefix of all its objects, with the closing slash.
    pub prefix: Bytes,
    pub namespaced: bool,
    pub selectable_fields: Arc<[SelectableField]>,
    /// Objects that are there without being stored.
    pub base: Option<Arc<BaseObjects>>,
}

impl PartialEq for CacheSpec {
    fn eq(&self, other: &Self) -> bool {
        self.prefix == other.prefix
            && self.namespaced == other.namespaced
            && self.selectable_fields == other.selectable_fields
    }
}

impl CacheSpec {
    pub fn layout(&self) -> KeyLayout {
        KeyLayout { prefix_len: self.prefix.len(), namespaced: self.namespaced }
    }

    /// Parses a stored entry. Unreadable ones are logged and left out: one damaged object must not hide the others.
    pub fn parse(&self, kv: &KeyValue) -> Option<Arc<Object>> {
        if self.base.is_some() && is_tombstone(kv) {
            return None;
        }
        match Object::parse(kv, self.layout(), &self.selectable_fields) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                tracing::error!(%error, "stored object left out");
                None
            }
        }
    }
}

/// The objects of a resource at one revision. Cheap to clone; never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub objects: OrdMap<Bytes, Arc<Object>>,
    pub revision: Revision,
}

impl Snapshot {
    /// Objects whose keys lie in `range`, in order.
    pub fn range(&self, range: &KeyRange) -> impl Iterator<Item = &Arc<Object>> {
        let start = range.start.clone();
        let end = range.end.clone();
        self.objects
            .range(start..)
            .take_while(move |(key, _)| end.as_ref().is_none_or(|end| *key < end))
            .map(|(_, object)| object)
    }
}

struct Ready {
    objects: OrdMap<Bytes, Arc<Object>>,
    /// What was read from the store holds everything up to here; such changes come from the feed once more. Not the same
    /// as `revision`: one transaction may change several objects of a resource, all at one revision.
    read_at: Revision,
    /// The last change applied, or the revision read at.
    revision: Revision,
    watchers: Vec<Arc<Watcher>>,
    subscribers: Vec<Subscriber>,
}

/// Called with every change before anybody can read it. Must be quick and must not call back into the cache.
pub type Subscriber = Box<dyn Fn(&Event) + Send + Sync>;

enum State {
    Loading(Loading),
    Ready(Ready),
}

/// A cache whose objects are being read.
#[derive(Default)]
struct Loading {
    /// Changes that arrive meanwhile.
    missed: Vec<store::Event>,
    /// What is read must hold everything up to here, because the feed did not see it.
    needed: Revision,
}

/// What came of installing what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installed {
    Done,
    /// The feed skipped changes meanwhile: read again.
    TooOld,
}

/// One resource's objects, current to the feed.
pub struct ResourceCache {
    pub spec: CacheSpec,
    state: RwLock<State>,
    decisive: AtomicBool,
}

impl ResourceCache {
    pub(super) fn loading(spec: CacheSpec) -> Self {
        Self { spec, state: RwLock::new(State::Loading(Loading::default())), decisive: AtomicBool::new(false) }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Installs what was read from the store, then the changes that happened meanwhile.
    pub(super) fn install(&self, loaded: &RangeResponse) -> Installed {
        let revision = loaded.revision;
        let (watchers, subscribers) = (Vec::new(), Vec::new());
        let mut ready = Ready { objects: self.objects_of(loaded), read_at: revision, revision, watchers, subscribers };
        let mut state = self.write();
        if let State::Loading(loading) = &mut *state {
            if revision < loading.needed {
                return Installed::TooOld;
            }
            for event in std::mem::take(&mut loading.missed) {
                self.apply_ready(&mut ready, &event, &mut Vec::new());
            }
            *state = State::Ready(ready);
        }
        Installed::Done
    }

    fn objects_of(&self, loaded: &RangeResponse) -> OrdMap<Bytes, Arc<Object>> {
        let parse = |kv: &KeyValue| Some((kv.key.clone(), self.spec.parse(kv)?));
        let mut objects: OrdMap<Bytes, Arc<Object>> = loaded.entries.iter().filter_map(parse).collect();
        if let Some(base) = &self.spec.base {
            objects.extend(base.not_among(&loaded.entries).filter_map(parse));
        }
        objects
    }

    /// Says that the feed did not see changes up to `revision`. A cache that is still loading will read them; for one
    /// that was loaded the answer is `true`: its objects must be read again and passed to [`ResourceCache::catch_up`].
    pub(super) fn skipped(&self, revision: Revision) -> bool {
        match &mut *self.write() {
            State::Loading(loading) => {
                loading.missed.clear();
                loading.needed = revision;
                false
            }
            State::Ready(_) => true,
        }
    }

    /// Takes over what was read after the feed skipped changes. Subscribers are told of the differences as if they had
    /// just happened; watches end, as each change between is owed to them, and resume from the store's history or anew.
    pub(super) fn catch_up(&self, loaded: &RangeResponse) {
        let objects = self.objects_of(loaded);
        let mut state = self.write();
        let State::Ready(ready) = &mut *state else { return };
        ready.watchers.drain(..).for_each(|watcher| watcher.close());
        let before = std::mem::replace(&mut ready.objects, objects);
        (ready.read_at, ready.revision) = (loaded.revision, loaded.revision);
        let tell = |event: Event| ready.subscribers.iter().for_each(|subscriber| subscriber(&event));
        for (_, old) in before.iter().filter(|(key, _)| !ready.objects.contains_key(*key)) {
            tell(Event::new(Arc::new(old.at_revision(loaded.revision)), Some(old.clone()), true));
        }
        for (key, object) in &ready.objects {
            let old = before.get(key);
            if old.is_none_or(|old| old.revision != object.revision) {
                tell(Event::new(object.clone(), old.cloned(), false));
            }
        }
    }

    /// Applies changes in order.
    pub(super) fn apply<'a>(&self, events: impl Iterator<Item = &'a store::Event>) {
        let mut waiting = Vec::new();
        match &mut *self.write() {
            State::Loading(loading) => loading.missed.extend(events.cloned()),
            State::Ready(ready) => events.for_each(|event| self.apply_ready(ready, event, &mut waiting)),
        }
        wake::together(|| waiting.into_iter().for_each(Waker::wake));
    }

    fn apply_ready(&self, ready: &mut Ready, event: &store::Event, waiting: &mut Vec<Waker>) {
        if event.revision() <= ready.read_at {
            return;
        }
        ready.revision = event.revision();
        let Some(event) = self.to_event(event, |key| ready.objects.get(key).cloned()) else { return };
        if event.deleted {
            ready.objects.remove(event.object.key());
        } else {
            ready.objects.insert(event.object.key().clone(), event.object.clone());
        }
        ready.subscribers.iter().for_each(|subscriber| subscriber(&event));
        if !ready.watchers.is_empty() {
            let event = Arc::new(event);
            ready.watchers.retain(|watcher| watcher.offer(&event, waiting));
        }
    }

    /// A store change as an object event; `previous` finds the state before it.
    fn to_event(&self, event: &store::Event, previous: impl Fn(&Bytes) -> Option<Arc<Object>>) -> Option<Event> {
        let before = previous(event.key());
        match &event.change {
            // Deleted is deleted, also where something has to be stored to say so.
            Change::Put(kv) if self.spec.base.is_some() && is_tombstone(kv) => {
                let before = before?;
                Some(Event::new(Arc::new(before.at_revision(kv.mod_revision)), Some(before), true))
            }
            Change::Put(kv) => Some(Event::new(self.spec.parse(kv)?, before, false)),
            Change::Delete { revision, .. } => {
                let before = before?;
                Some(Event::new(Arc::new(before.at_revision(*revision)), Some(before), true))
            }
        }
    }

    /// Past changes, read from the store's history, as object events.
    pub fn replay(&self, events: &[store::Event]) -> Vec<Arc<Event>> {
        let base = |key: &Bytes| self.spec.base.as_ref().and_then(|base| base.get(key));
        let convert = |event: &store::Event| {
            let previous = |key: &Bytes| match &event.previous {
                Some(kv) => self.spec.parse(kv),
                None => self.spec.parse(base(key)?),
            };
            self.to_event(event, previous).map(Arc::new)
        };
        events.iter().filter_map(convert).collect()
    }

    /// One object, as of the last applied change.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Object>> {
        match &*self.read() {
            State::Loading(_) => None,
            State::Ready(ready) => ready.objects.get(key).cloned(),
        }
    }

    /// All objects. `applied` is the feed's position read before this call; the snapshot holds at the later of the two.
    pub fn snapshot(&self, applied: Revision) -> Snapshot {
        match &*self.read() {
            State::Loading(_) => Snapshot { objects: OrdMap::new(), revision: applied },
            State::Ready(ready) => Snapshot { objects: ready.objects.clone(), revision: ready.revision.max(applied) },
        }
    }

    /// Registers a watcher for changes after the returned snapshot, so that nothing falls between the two. With `after`
    /// beyond the snapshot the changes up to it are left out.
    /// With more undelivered than `limits` allow the watcher is cut off.
    pub fn watch(
        &self,
        filter: Filter,
        applied: Revision,
        after: Option<Revision>,
        limits: QueueLimits,
    ) -> (Snapshot, Arc<Watcher>) {
        let mut state = self.write();
        let State::Ready(ready) = &mut *state else {
            // Only loaded caches are handed out, so this watcher can never miss anything; it just sees nothing.
            let snapshot = Snapshot { objects: OrdMap::new(), revision: applied };
            return (snapshot, Arc::new(Watcher::new(filter, applied, limits)));
        };
        let revision = ready.revision.max(applied);
        let after = after.unwrap_or_default().max(ready.revision);
        let watcher = Arc::new(Watcher::new(filter, after, limits));
        ready.watchers.push(watcher.clone());
        (Snapshot { objects: ready.objects.clone(), revision }, watcher)
    }

    /// Says that whether requests are allowed depends on these objects.
    pub fn mark_decisive(&self) {
        self.decisive.store(true, Ordering::Release);
    }

    pub(super) fn is_decisive(&self) -> bool {
        self.decisive.load(Ordering::Acquire)
    }

    /// Tells `subscriber` of every object there is and of every change from now on, in order and without a gap.
    pub fn subscribe(&self, subscriber: Subscriber) {
        if let State::Ready(ready) = &mut *self.write() {
            for object in ready.objects.values() {
                subscriber(&Event::new(object.clone(), None, false));
            }
            ready.subscribers.push(subscriber);
        }
    }

    /// Forgets a watcher whose client has gone.
    pub fn unwatch(&self, watcher: &Arc<Watcher>) {
        if let State::Ready(ready) = &mut *self.write() {
            ready.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        }
    }

    /// The last change applied to this resource.
    pub fn last_change(&self) -> Revision {
        match &*self.read() {
            State::Loading(_) => Revision::default(),
            State::Ready(ready) => ready.revision,
        }
    }

    /// How many objects and watchers there are, for metrics.
    pub fn counts(&self) -> (usize, usize) {
        match &*self.read() {
            State::Loading(_) => (0, 0),
            State::Ready(ready) => (ready.objects.len(), ready.watchers.len()),
        }
    }

    /// Ends every watch; clients resume elsewhere or later.
    pub fn close_watchers(&self) {
        if let State::Ready(ready) = &mut *self.write() {
            ready.watchers.drain(..).for_each(|watcher| watcher.close());
        }
    }
}
