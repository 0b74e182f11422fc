package lookup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Values of Query.Detail.
const (
	Name    = "name"
	Summary = "summary"
	Full    = "full"
	// Lines is for Brief only.
	Lines = "brief"
)

// Query is a search for tools.
type Query struct {
	Text     string `json:"query"` // of several topics as search.Topics splits it; in JSON also an array of them
	Category string `json:"category"`
	Detail   string `json:"detail_level"` // "" means Summary
	Limit    int    `json:"max_results"`  // 0 means 10, and 20 for Brief
	// FromCode marks a query of code in the sandbox. It may contain private data and is
	// therefore not sent to a remote embedding endpoint.
	FromCode bool `json:"-"`
	// Listed means that the caller has waited for servers that were never listed.
	Listed bool `json:"-"`
	// Explain adds an Explanation to each tool of Found.
	Explain bool `json:"-"`
}

// UnmarshalJSON accepts an array of texts as the query too.
func (q *Query) UnmarshalJSON(b []byte) error {
	type plain Query
	with := struct {
		*plain
		Text Words `json:"query"`
	}{plain: (*plain)(q)}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err := dec.Decode(&with)
	q.Text = string(with.Text)
	return err
}

// Words are the text of a Query. In JSON they are a string, or an array of strings, one for each topic.
type Words string

// UnmarshalJSON joins the texts of an array.
func (w *Words) UnmarshalJSON(b []byte) error {
	var several []string
	if json.Unmarshal(b, &several) == nil {
		*w = Words(JoinTopics(several...))
		return nil
	}
	return json.Unmarshal(b, (*string)(w))
}

// JoinTopics returns the text of a Query for these topics.
func JoinTopics(topics ...string) string { return strings.Join(topics, search.TopicSeparator) }

// echo returns the text of a query as an answer shows it.
func echo(text string) string { return strings.ReplaceAll(text, search.TopicSeparator, ", ") }

// Hit is one tool in a search's answer.
type Hit struct {
	Name        string   `json:"name"`
	Category    string   `json:"category"`
	Server      string   `json:"mcp_server"`
	Description string   `json:"description,omitempty"` // the first sentence
	Functions   []string `json:"functions,omitempty"`
	UseCases    []string `json:"use_cases,omitempty"`
	Signature   string   `json:"signature,omitempty"`
	Import      string   `json:"import,omitempty"`  // also of a skill or handwritten function without other details
	Connect     string   `json:"connect,omitempty"` // how, if its server is not connected

	Explanation *Explanation `json:"explanation,omitempty"` // of a tool, if Query.Explain is set
}

// Explanation lists the parts of the score of a tool.
type Explanation struct {
	Score float64  `json:"score"`           // the best tool has about 1 or more
	Used  float64  `json:"used"`            // the part of it that is due to any use of the tool
	Words float64  `json:"words"`           // the part that is due to similar searches before calls of the tool
	Terms []string `json:"terms,omitempty"` // stems of the words of the most similar one
}

// firstSentence returns the first sentence of a text, at most n characters.
func firstSentence(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	for i, r := range text {
		if (r == '.' || r == '!' || r == '?') && (i+1 == len(text) || text[i+1] == ' ') && i > 20 {
			text = text[:i]
			break
		}
	}
	text = strings.TrimSuffix(text, ".")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// maxNamed limits the names in a hint.
const maxNamed = 12

func listSome(all []string) string {
	if more := len(all) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

func categories(now *catalog.Snapshot) (names []string) {
	for name := range now.Categories() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
