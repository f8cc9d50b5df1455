package main

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

// eventType is what an informer's handler was told.
type eventType string

const (
	added   eventType = "ADDED"
	updated eventType = "MODIFIED"
	deleted eventType = "DELETED"
)

// event is one call of a handler.
type event struct {
	kind eventType
	// rv is the object's resourceVersion; 0 in an expected event means that the writer was not told.
	rv      uint64
	initial bool
}

func (e event) String() string { return fmt.Sprintf("%s@%d", e.kind, e.rv) }

// life is one object from its creation to its deletion; a later object of the same name is another life.
type life struct {
	// puts has the resourceVersion of every acknowledged create, update and patch, and whether the labels then
	// matched the selector.
	puts    map[uint64]bool
	deleted bool
}

// history is what writers were told by the server, per object name. It is the model that informers are held to.
type history struct {
	mu    sync.Mutex
	names map[string]map[string]*life // name, uid
}

func newHistory() *history { return &history{names: map[string]map[string]*life{}} }

func (h *history) life(name, uid string) *life {
	lives := h.names[name]
	if lives == nil {
		lives = map[string]*life{}
		h.names[name] = lives
	}
	if lives[uid] == nil {
		lives[uid] = &life{puts: map[uint64]bool{}}
	}
	return lives[uid]
}

// put records an acknowledged write. A write that changed nothing has the resourceVersion of the one before.
func (h *history) put(name, uid string, rv uint64, matches bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life(name, uid).puts[rv] = matches
}

func (h *history) delete(name, uid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life(name, uid).deleted = true
}

// latest is the uid of the newest object of this name that nobody has deleted, or "".
func (h *history) latest(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	uid, newest := "", uint64(0)
	for candidate, life := range h.names[name] {
		for rv := range life.puts {
			if !life.deleted && rv > newest {
				uid, newest = candidate, rv
			}
		}
	}
	return uid
}

// expected is an event that informers must report, with its place in the order of everything that happened.
type expected struct {
	event
	// place is twice the resourceVersion; a deletion of unknown resourceVersion follows the last write.
	place uint64
}

// events are what an informer sees that has watched since the beginning. With a selector, an object that stops matching
// is deleted and one that starts matching is added, as far as the informer is concerned.
func (h *history) events(name string, selected bool) []expected {
	h.mu.Lock()
	defer h.mu.Unlock()
	type sorted struct {
		rvs  []uint64
		life *life
	}
	var lives []sorted
	for _, life := range h.names[name] {
		rvs := make([]uint64, 0, len(life.puts))
		for rv := range life.puts {
			rvs = append(rvs, rv)
		}
		sort.Slice(rvs, func(i, j int) bool { return rvs[i] < rvs[j] })
		lives = append(lives, sorted{rvs, life})
	}
	sort.Slice(lives, func(i, j int) bool { return lives[i].rvs[0] < lives[j].rvs[0] })
	var all []expected
	for _, one := range lives {
		visible := false
		for _, rv := range one.rvs {
			matches := !selected || one.life.puts[rv]
			switch {
			case matches && !visible:
				all = append(all, expected{event{added, rv, false}, 2 * rv})
			case matches && visible:
				all = append(all, expected{event{updated, rv, false}, 2 * rv})
			case visible:
				all = append(all, expected{event{deleted, rv, false}, 2 * rv})
			}
			visible = matches
		}
		if one.life.deleted && visible {
			all = append(all, expected{event{deleted, 0, false}, 2*one.rvs[len(one.rvs)-1] + 1})
		}
	}
	return all
}

// check compares what an informer reported about one object with what happened. syncRV is the resourceVersion the
// informer had reached when it said that it was in sync: everything later must have been reported.
func (h *history) check(name string, selected bool, seen []event, syncRV uint64) error {
	all := h.events(name, selected)
	rest := all
	if len(seen) > 0 && seen[0].initial {
		// What the initial list contained replaces everything before it.
		first := seen[0]
		if first.kind != added {
			return fmt.Errorf("%s: the initial event is %s", name, first)
		}
		for len(rest) > 0 && rest[0].place <= 2*first.rv {
			rest = rest[1:]
		}
		if len(rest) == len(all) || all[len(all)-len(rest)-1].place != 2*first.rv {
			return fmt.Errorf("%s: nobody wrote the initial %s; expected %v", name, first, all)
		}
		seen = seen[1:]
	} else {
		// Either the object was not there, or not selected, when the informer started. What happened until it was in
		// sync may be in the initial list's past.
		for len(rest) > 0 && rest[0].place <= 2*syncRV+1 && (len(seen) == 0 || rest[0].rv != seen[0].rv || rest[0].kind != added) {
			rest = rest[1:]
		}
	}
	last := uint64(0)
	for i := 0; i < len(seen) || i < len(rest); i++ {
		if i >= len(seen) {
			return fmt.Errorf("%s: missed %s (and %d more)%s", name, rest[i], len(rest)-i-1, around(i, seen, rest))
		}
		if i >= len(rest) {
			return fmt.Errorf("%s: unexpected %s (and %d more)%s", name, seen[i], len(seen)-i-1, around(i, seen, rest))
		}
		if seen[i].kind != rest[i].kind || (rest[i].rv != 0 && seen[i].rv != rest[i].rv) {
			return fmt.Errorf("%s: expected %s, got %s%s", name, rest[i], seen[i], around(i, seen, rest))
		}
		if seen[i].rv <= last {
			return fmt.Errorf("%s: %s after resourceVersion %d", name, seen[i], last)
		}
		last = seen[i].rv
	}
	return nil
}

// around shows both sequences near the place where they part.
func around(place int, seen []event, rest []expected) string {
	var text strings.Builder
	text.WriteString("\n  seen:    ")
	for i := max(0, place-3); i < min(len(seen), place+6); i++ {
		fmt.Fprintf(&text, " %s", seen[i])
	}
	text.WriteString("\n  expected:")
	for i := max(0, place-3); i < min(len(rest), place+6); i++ {
		fmt.Fprintf(&text, " %s", rest[i].event)
	}
	return text.String()
}
