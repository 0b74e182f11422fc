package known_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// surnames and given names that are frequent in the United States, and those of this repository's tests.
const names = `Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson Thomas Taylor Moore Jackson
Martin Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker Young Allen Wright Scott Torres Nguyen Flores Green Adams Nelson Baker Rivera
Campbell Mitchell Carter Roberts Gomez Phillips Evans Turner Diaz Parker Edwards Collins Reyes Stewart Morris Morales Murphy Rogers Gutierrez Ortiz Morgan
Cooper Peterson Bailey Kelly Howard Ramos Richardson Watson Brooks Chavez Woods James Bennett Gray Mendoza Hughes Price Alvarez Castillo Sanders Patel Myers Foster
Jimenez Powell Jenkins Perry Russell Sullivan Butler Barnes Fisher Henderson Coleman Simmons Patterson Jordan Reynolds Hamilton Graham Wallace Stone Marshall Hunter Page
Robert Michael David William Richard Joseph Charles Christopher Daniel Matthew Anthony Steven Andrew Kenneth Joshua Kevin Brian George Timothy Ronald Jason Edward
Jeffrey Jacob Nicholas Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Nancy Sandra Ashley Emily Kimberly Donna Michelle Carol Amanda Melissa Deborah
Stephanie Rebecca Sharon Laura Cynthia Grace Amber Victoria Hannah Faith Heather Crystal Virginia Dakota Chase Mason Cooper Logan Lovelace Hopper Quarterstaff Docker Tesla`

// shortNames are shorter than the names that are found anywhere, without those of this repository's tests.
const shortNames = `Lee Kim Sam Max Joe Tim Ian Amy Eva Mia Leo Eli Ben Dan Tom Jim Ray Roy Ron Don Ted Ned Meg Sue Liz Pam Kay May Joy Ivy Ida Eve Ana Lea Noa Uma Ali Omar Amir
Zara Emma Lily Ruby Jade Rose Mary Jane Kate Lisa Lucy John Paul Mark Luke Adam Noah Evan Ryan Sean Eric Greg Jeff Carl Karl Kurt Hans Lars Nils Sven Olaf Bush Ford Hill
King Wood Cole Cruz Diaz Ruiz Vega Soto Lane Reed Long Bell Fox Gray Park Cook Webb Hart Dunn Hahn Koch Wolf Berg`

// TestWordsInSlugs counts what is found in the files of this repository with 200 known names, in
// addition to the names in their own letter case.
func TestWordsInSlugs(t *testing.T) {
	countInRepository(t, names, 12) // 8 are the names of persons, 3 a variable named carol; 57 more are words of English
	countInRepository(t, shortNames, 0)
}

// countInRepository counts what is found with these known names, other than in their own letter case.
func countInRepository(t *testing.T, names string, most int) {
	t.Helper()
	x := index(strings.Fields(names)...)
	n, size := 0, 0
	err := filepath.WalkDir("../../../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && e.Name() != "privacy" {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir // its tests have such names
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" && ext != ".txt" && ext != ".py" && ext != ".yaml" && ext != ".json" {
			return nil
		}
		b, err := os.ReadFile(path)
		text := string(b)
		size += len(text)
		for _, f := range x.Find(text) {
			if v := text[f.Start:f.End]; !strings.Contains(names, v) {
				n++
				t.Logf("%q", text[max(0, f.Start-15):min(len(text), f.End+15)])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, found %d", size, n)
	if n > most {
		t.Errorf("found %d, want at most %d", n, most)
	}
}
