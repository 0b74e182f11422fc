package model

import (
	"regexp"
	"slices"
	"strings"
)

// maxSearch is the maximum length of a requested search, in bytes.
const maxSearch = 200

var (
	// setsResult matches a program that follows the rule to assign result.
	setsResult = regexp.MustCompile(`(?m)^[ \t]*result[ \t]*(:[^=\n]+)?=[^=]`)
	asksSearch = regexp.MustCompile("(?m)^[ \t*`]*SEARCH:[ \t]*([^\r\n]+)")
	fenceLine  = regexp.MustCompile("^([ \t]*)(`{3,}|~{3,})[ \t]*(.*)$")
)

// python are the languages of a fence that contains Python.
var python = []string{"python", "python3", "py", "py3"}

// block is a fenced part of a text.
type block struct {
	language string
	text     string
}

// extract returns the program in the text of a model or, if there is none, the words of
// the search that it requests. Otherwise why is the reason, for the model.
//
// Of several blocks, those marked as Python take precedence over blocks without a
// language, and other languages are ignored. Of these it returns the last one that
// assigns result: a model revises a draft below it, and output that it predicts assigns
// nothing. It does not test whether a block is valid Python: the check of the program does,
// and its error is more useful to the model. An unclosed fence is an error even below a
// complete block, because the last block is the one that counts.
func extract(text string) (code, search, why string) {
	text = withoutThoughts(strings.ReplaceAll(text, "\r\n", "\n"))
	if strings.TrimSpace(text) == "" {
		return "", "", "the answer is empty"
	}
	blocks, closed := split(text)
	if !closed {
		return "", "", "the answer ends inside a code block"
	}
	if code := choose(blocks); code != "" {
		return code, "", ""
	}
	if m := asksSearch.FindStringSubmatch(text); m != nil {
		if search = strings.Trim(shorten(m[1], maxSearch), " \t*`\n"); search != "" {
			return "", strings.ReplaceAll(search, "\n", " "), ""
		}
	}
	// A program without a fence.
	if len(blocks) == 0 && regexp.MustCompile(`(?m)^result[ \t]*(:[^=\n]+)?=[^=]`).MatchString(text) {
		return strings.Trim(text, "\n") + "\n", "", ""
	}
	return "", "", "the answer contains no Python code block"
}

// withoutThoughts removes the reasoning that some models write before their answer.
func withoutThoughts(text string) string {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<think>"); ok {
		if _, answer, ended := strings.Cut(rest, "</think>"); ended {
			return answer
		}
	}
	return text
}

// split returns the fenced blocks of a text, and whether the last one is closed. A fence is
// closed by one of the same character that is at least as long, as in CommonMark.
func split(text string) (blocks []block, closed bool) {
	var fence, indent string
	var lines []string
	open := false
	for line := range strings.SplitSeq(text, "\n") {
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case !open && m != nil && !strings.Contains(m[3], "`"):
			open, indent, fence, lines = true, m[1], m[2], nil
			blocks = append(blocks, block{language: language(m[3])})
		case open && m != nil && m[3] == "" && strings.HasPrefix(m[2], fence) && len(m[1]) <= len(indent)+3:
			open = false
			blocks[len(blocks)-1].text = strings.Join(lines, "\n") + "\n"
		case open:
			lines = append(lines, strings.TrimPrefix(line, indent))
		}
	}
	return blocks, !open
}

// language returns the language in the line of a fence: the first word, with or without
// braces.
func language(info string) string {
	words := strings.FieldsFunc(strings.ToLower(info), func(r rune) bool { return strings.ContainsRune(" \t{},.:", r) })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// choose returns the program among the blocks, or "".
func choose(blocks []block) string {
	isPython := func(b block) bool { return slices.Contains(python, b.language) }
	marked := slices.ContainsFunc(blocks, isPython)
	last := ""
	for _, b := range slices.Backward(blocks) {
		if strings.TrimSpace(b.text) == "" || marked && !isPython(b) || b.language != "" && !isPython(b) {
			continue
		}
		if setsResult.MatchString(b.text) {
			return b.text
		}
		if last == "" {
			last = b.text
		}
	}
	return last
}
