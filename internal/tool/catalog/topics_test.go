package catalog

import (
	"slices"
	"testing"
)

func TestTopicsAreObjectsOfTools(t *testing.T) {
	var byServer [][]string
	for _, n := range []toolNames{
		{server: "crm", tools: []string{"list_contacts", "get_contact", "waive_fee", "crm_search", "listDeals"}},
		{server: "github GitHub", tools: []string{"issue_delete", "pull_request_read", "search_code", "github_ping"}},
		{server: "notes", tools: []string{"notes_list", "summarize"}},
	} {
		byServer = append(byServer, n.topics(newIsVerb()))
	}
	got := combineTopics(byServer)
	want := []string{"contacts", "code", "summarize", "deals", "issue", "fee", "request", "pull", "ping"}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %s in %q", w, got)
		}
	}
	for _, verb := range []string{"list", "get", "waive", "delete", "search", "github", "notes"} {
		if slices.Contains(got, verb) {
			t.Errorf("%s is in %q", verb, got)
		}
	}
	if len(got) < 3 || got[0] != "contacts" {
		t.Errorf("%q", got)
	}
}
