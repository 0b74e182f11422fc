package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

var from = flag.String("from", "", "write o200k.bin from tiktoken's o200k_base.tiktoken")

func TestCount(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"hello world", 2},
		{`{"success":true}`, 5},
		{"日本語", 2},
		{"<|endoftext|>", 7}, // plain text, not the special token
		{"a\x7f", 2},
		{"\xff", 1}, // as U+FFFD
	} {
		if got := Count(c.text); got != c.want {
			t.Errorf("Count(%q) = %d; want %d", c.text, got, c.want)
		}
	}
}

// TestVocabulary restores the file from which the table was made, and compares its hash
// with the one that tiktoken expects.
func TestVocabulary(t *testing.T) {
	if *from != "" {
		writeTable(t)
		return
	}
	var tokens [200_000]string
	for at := offset(0); at < uint32(len(vocabulary)); {
		size := uint32(vocabulary[at])
		token := vocabulary[at+entryHeader:][:size]
		r := rank(token)
		if r == noRank {
			t.Fatalf("token %q is in the wrong bucket", token)
		}
		tokens[r] = token
		at += entryHeader + size
	}
	h := sha256.New()
	for r, token := range tokens {
		if token != "" {
			fmt.Fprintf(h, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), r)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d" {
		t.Errorf("SHA-256 of the vocabulary: %s", got)
	}
}

// writeTable writes o200k.bin.
func writeTable(t *testing.T) {
	file, err := os.ReadFile(*from)
	if err != nil {
		t.Fatal(err)
	}
	var entries [buckets][]byte
	for line := range strings.Lines(string(file)) {
		var token []byte
		var r uint32
		if _, err := fmt.Sscanf(line, "%s %d", &token, &r); err != nil {
			t.Fatal(err)
		}
		token, err := base64.StdEncoding.AppendDecode(nil, token)
		if err != nil {
			t.Fatal(err)
		}
		b := bucket(string(token))
		entries[b] = append(entries[b], byte(len(token)), byte(r), byte(r>>8), byte(r>>16))
		entries[b] = append(entries[b], token...)
	}
	var table []byte
	at := uint32(4 * (buckets + 1))
	for _, e := range entries {
		table = binary.LittleEndian.AppendUint32(table, at)
		at += uint32(len(e))
	}
	table = binary.LittleEndian.AppendUint32(table, at)
	if err := os.WriteFile("o200k.bin", append(table, bytes.Join(entries[:], nil)...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCountsAsTiktoken compares counts with those of tiktoken 0.14, for random texts of
// characters and words between which the pattern distinguishes.
func TestCountsAsTiktoken(t *testing.T) {
	file, err := os.ReadFile("testdata/counts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		number, quoted, _ := strings.Cut(line, " ")
		var text string
		if err := json.Unmarshal([]byte(quoted), &text); err != nil {
			t.Fatal(err)
		}
		if got := strconv.Itoa(Count(text)); got != number {
			t.Errorf("Count(%q) = %s; tiktoken has %s", text, got, number)
		}
	}
}

func TestCountIsConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if n := Count("hello world"); n != 2 {
				t.Errorf("Count = %d", n)
			}
		})
	}
	wg.Wait()
}

// FuzzCountPiece compares with byte-pair encoding in its simplest form.
func FuzzCountPiece(f *testing.F) {
	f.Add("unbelievably")
	f.Add(strings.Repeat("aab", 50))
	f.Add("\xe6\x97\xff\u0301")
	f.Fuzz(func(t *testing.T, piece string) {
		if piece == "" || len(piece) > 1000 {
			return
		}
		if got, want := countPiece(piece), countSlowly(piece); got != want {
			t.Errorf("countPiece(%q) = %d; want %d", piece, got, want)
		}
	})
}

func countSlowly(piece string) int {
	if rank(piece) != noRank {
		return 1
	}
	tokens := make([]string, len(piece))
	for i := range tokens {
		tokens[i] = piece[i : i+1]
	}
	for {
		best, lowest := 0, uint32(noRank)
		for i := range len(tokens) - 1 {
			if r := rank(tokens[i] + tokens[i+1]); r < lowest {
				best, lowest = i, r
			}
		}
		if lowest == noRank {
			return len(tokens)
		}
		tokens[best] += tokens[best+1]
		tokens = slices.Delete(tokens, best+1, best+2)
	}
}

// FuzzFirstPiece checks that the pieces of a text end between characters and are not empty.
func FuzzFirstPiece(f *testing.F) {
	f.Add("It's HTTPServer's 12345  \r\n\t x = {\"a\": [1, 2.5]} // 日本語")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		for text != "" {
			n := firstPiece(text)
			if n <= 0 || n > len(text) || !utf8.ValidString(text[:n]) {
				t.Fatalf("firstPiece(%q) = %d", text, n)
			}
			text = text[n:]
		}
	})
}

func BenchmarkCount(b *testing.B) {
	data, err := os.ReadFile("../../../docs/benchmarks.md")
	if err != nil {
		b.Fatal(err)
	}
	text := string(data)
	for _, c := range []struct {
		name, text string
	}{{"prose", text}, {"unbroken", strings.Repeat("abcdefghij", len(text)/10)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				Count(c.text)
			}
		})
	}
}
