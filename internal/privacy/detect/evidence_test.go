package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

func TestNameNeedsEvidenceInObject(t *testing.T) {
	s := scanner(t)
	for _, c := range []string{
		`{"name":"Blue Lamp","price":12}`,
		`{"name":"Central Airport","city":"New York","code":"JFK"}`,
		`{"name":"Get Weather","description":"Returns the ` +
			`weather","inputSchema":{"type":"object","properties":{"email":{"type":"string"}}}}`,
		`{"name":"Web Server","ip":"8.8.4.4","token":"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek"}`,
		`{"name":"«Ada Lovelace»","email":"ada@example.com"}`,
		`{"email":"ada@example.com","id":5,"name":"«Ada Lovelace»"}`,
		`{"name":"«Ada Lovelace»","contact":{"phone":"+1 415-555-0132"}}`,
		`{"name":"«Ada Lovelace»","emails":["ada@example.com"]}`,
		`{"name":"«Ada Lovelace»","first_name":null}`,
		`{"name":"«Ada Lovelace»","date_of_birth":"1815-12-10"}`,
		`{"name":"«Ada Lovelace»","employee_id":7}`,
		`{"patient":{"name":"«Ada Lovelace»"}}`,
		`{"patient":"«Ada Lovelace»","item":"Blue Lamp"}`,
		`{"lead_author":{"id":5,"name":"«Ada Lovelace»"},"item":{"name":"Blue Lamp"}}`,
		`{"item":{"name":"Blue Lamp"},"employee":{"name":"«Ada Lovelace»"}}`,
		`{"employees":[{"id":1,"name":"«Ada Lovelace»"},{"id":2,"name":"«Grace Hopper»"}],"rooms":[{"name":"Blue Room"}]}`,
		`[{"name":"Blue Lamp","price":1},{"name":"«Ada Lovelace»","email":"ada@example.com"},{"name":"Red Lamp","price":2}]`,
		`{"name":"Sales Team","members":[{"name":"«Ada Lovelace»","email":"ada@example.com"}]}`,
		`{"shop":{"email":"ada@example.com"},"product":{"name":"Blue Lamp"}}`,
		`[{'name': 'Blue Lamp', 'n': 1}, {'name': '«Ada Lovelace»', 'phone': '+1 415-555-0132'}]`,
		`{\"name\": \"«Ada Lovelace»\", \"email\": \"ada@example.com\"} {\"name\": \"Blue Lamp\"}`,
		"Name: «Ada Lovelace»\nEmail: ada@example.com\n\nName: Blue Lamp\nPrice: 12",
		"Name: Blue Lamp\nPrice: 12\nName: «Ada Lovelace»\nEmail: ada@example.com",
	} {
		text := unmark.Replace(c)
		if got := mark(text, detect.Name, s.Scan(text)); got != c {
			t.Errorf("got  %s\nwant %s", got, c)
		}
	}
}

func TestNameNeedsEvidenceInAttributeAndRow(t *testing.T) {
	s := scanner(t)
	for _, c := range []string{
		`Product(name='Blue Lamp', price=12)`,
		`Customer(name='«Ada Lovelace»', email='ada@example.com'), Product(name='Blue Lamp')`,
		`<item><name>Blue Lamp</name></item><person><name>«Ada Lovelace»</name></person>`,
		`<item><name>Blue Lamp</name></item><item><name>«Ada Lovelace»</name><mail>ada@example.com</mail></item>`,
		"name,price\nBlue Lamp,12\n",
		"id,name,email\n1,«Ada Lovelace»,ada@example.com\n2,Blue Lamp,\n3,«Grace Hopper»,g@example.com\n",
		"name,date_of_birth\n«Ada Lovelace»,1815-12-10\n",
		"| name | email |\n|---|---|\n| «Ada Lovelace» | ada@example.com |\n| Blue Lamp | none |\n",
		"           name            email\n0  «Ada Lovelace»  ada@example.com\n1     Blue Lamp             none\n",
	} {
		text := unmark.Replace(c)
		if got := mark(text, detect.Name, s.Detect("", text)); got != c {
			t.Errorf("got  %s\nwant %s", got, c)
		}
	}
}

func TestListKeyIsEvidenceForAllElements(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `,{"id":%d,"name":"Ada Lovelace","team":"number %d of many"}`, i, i)
	}
	s := scanner(t)
	if n := len(s.Scan(`{"employees":[` + b.String()[1:] + `]}`)); n != 2000 {
		t.Errorf("found %d of 2000 employees", n)
	}
	if n := len(s.Scan(`{"rooms":[` + b.String()[1:] + `]}`)); n != 0 {
		t.Errorf("found %d of 2000 rooms, want 0", n)
	}
}

func TestNamesAlwaysAndNever(t *testing.T) {
	const text = `[{"name":"Blue Lamp"},{"name":"Ada Lovelace","email":"ada@example.com"},{"first_name":"Grace"}]`
	for names, want := range map[detect.Names]string{
		"":              `[{"name":"Blue Lamp"},{"name":"«Ada Lovelace»","email":"ada@example.com"},{"first_name":"«Grace»"}]`,
		detect.Evidence: `[{"name":"Blue Lamp"},{"name":"«Ada Lovelace»","email":"ada@example.com"},{"first_name":"«Grace»"}]`,
		detect.Always:   `[{"name":"«Blue Lamp»"},{"name":"«Ada Lovelace»","email":"ada@example.com"},{"first_name":"«Grace»"}]`,
		detect.Never:    `[{"name":"Blue Lamp"},{"name":"Ada Lovelace","email":"ada@example.com"},{"first_name":"«Grace»"}]`,
	} {
		s, err := detect.New(detect.Config{Names: names})
		if err != nil {
			t.Fatal(err)
		}
		if got := mark(text, detect.Name, s.Scan(text)); got != want {
			t.Errorf("%q: got %s", names, got)
		}
	}
	if _, err := detect.New(detect.Config{Names: "sometimes"}); err == nil {
		t.Error("New accepted an unknown rule")
	}
}
