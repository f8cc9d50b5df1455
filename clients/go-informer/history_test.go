package main

import (
	"strings"
	"testing"
)

// written has one object that is created, hidden from the selector, shown again and deleted, and then another of the
// same name.
func written() *history {
	h := newHistory()
	h.put("x", "u1", 10, true)
	h.put("x", "u1", 12, false)
	h.put("x", "u1", 14, true)
	h.delete("x", "u1")
	h.put("x", "u2", 20, true)
	h.put("x", "u2", 20, true) // a write that changed nothing
	h.put("x", "u2", 22, true)
	return h
}

func TestCheck(t *testing.T) {
	a := func(rv uint64) event { return event{added, rv, false} }
	m := func(rv uint64) event { return event{updated, rv, false} }
	d := func(rv uint64) event { return event{deleted, rv, false} }
	initial := func(rv uint64) event { return event{added, rv, true} }
	for _, test := range []struct {
		name     string
		selected bool
		seen     []event
		syncRV   uint64
		problem  string // empty: none
	}{
		{"everything", false, []event{a(10), m(12), m(14), d(15), a(20), m(22)}, 1, ""},
		{"everything selected", true, []event{a(10), d(12), a(14), d(15), a(20), m(22)}, 1, ""},
		{"from an initial list", false, []event{initial(12), m(14), d(15), a(20), m(22)}, 13, ""},
		{"from a list when it was absent", false, []event{a(20), m(22)}, 16, ""},
		{"from a list of the end", false, []event{initial(22)}, 30, ""},
		{"a write is missing", false, []event{a(10), m(14), d(15), a(20), m(22)}, 1, "expected MODIFIED@12"},
		{"the last write is missing", false, []event{a(10), m(12), m(14), d(15), a(20)}, 1, "missed MODIFIED@22"},
		{"the deletion is missing", false, []event{a(10), m(12), m(14), a(20), m(22)}, 1, "expected DELETED"},
		{"all is missing", false, nil, 1, "missed ADDED@10"},
		{"a creation after the list is missing", false, nil, 16, "missed ADDED@20"},
		{"a write comes twice", false, []event{a(10), m(12), m(12), m(14), d(15), a(20), m(22)}, 1, "got MODIFIED@12"},
		{"the initial object comes again", false, []event{initial(12), m(12), m(14), d(15), a(20), m(22)}, 13, "got MODIFIED@12"},
		{"writes change places", false, []event{a(10), m(14), m(12), d(15), a(20), m(22)}, 1, "expected MODIFIED@12"},
		{"a hidden object stays", true, []event{a(10), m(14), d(15), a(20), m(22)}, 1, "expected DELETED@12"},
		{"the list has what nobody wrote", false, []event{initial(21), m(22)}, 21, "nobody wrote"},
		{"an event that nobody caused", false, []event{initial(22), m(23)}, 22, "unexpected MODIFIED@23"},
		{"a deletion that is older than what it deletes", false, []event{a(10), m(12), m(14), d(13), a(20), m(22)}, 1, "after resourceVersion 14"},
	} {
		err := written().check("x", test.selected, test.seen, test.syncRV)
		if test.problem == "" && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
			t.Errorf("%s: expected %q, got %v", test.name, test.problem, err)
		}
	}
}
