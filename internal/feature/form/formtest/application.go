package formtest

import "fmt"

// Flags of fields.
const (
	required  = 1 << 1
	multiline = 1 << 12
	combo     = 1 << 17
	multi     = 1 << 21
	comb      = 1 << 24
)

// Application returns an application for a residence permit, a form of two pages in the style of an
// authority, with fields of every type and a table of children.
func Application() []byte {
	b := NewBuilder()
	b.Text(50, 790, 9, "REPUBLIC OF ARCADIA - Ministry of the Interior")
	b.Text(50, 765, 17, "Application for a Residence Permit")
	b.Text(470, 790, 9, "Form RP-101")
	b.Rule(50, 755, 545, 755)
	b.heading(735, "1  Personal details")
	b.labelled(50, 700, 235, "1.1 Surname *", "surname", "Surname (as in your passport)", required, "")
	b.labelled(310, 700, 235, "1.2 Given names *", "given_names", "Given names", required, "")
	b.labelled(50, 660, 110, "1.3 Date of birth (DD.MM.YYYY) *", "dob", "Date of birth (DD.MM.YYYY)", required, "/MaxLen 10")
	b.labelled(180, 660, 105, "1.4 Place of birth", "pob", "Place of birth", 0, "")
	b.labelled(310, 660, 235, "1.5 Passport number *", "passport_no", "Passport number", required|comb, "/MaxLen 9")
	b.Text(50, 640, 8, "1.6 Sex *")
	b.Radio(50, 622, 75, "sex", "Sex", required, "Female", "Male", "Other")
	b.Text(310, 640, 8, "1.7 Nationality *")
	b.Field(310, 620, 235, 17, fmt.Sprintf("/FT /Ch /T (nationality) /TU (Nationality) /Ff %d /DA (/Helv 10 Tf 0 0 0.5 rg) /Opt [[(FR) "+
		"(France)] [(PL) (Poland)] [(TR) (Turkey)] [(GB) (United Kingdom)]]", required|combo))
	b.heading(595, "2  Address and contact")
	b.labelled(50, 560, 235, "2.1 Street and number *", "addr_street", "Street address", required, "")
	b.labelled(310, 560, 80, "2.2 Postcode *", "addr_zip", "Postcode", required, "/MaxLen 10")
	b.labelled(410, 560, 135, "2.3 Town *", "addr_town", "Town", required, "")
	b.labelled(50, 520, 235, "2.4 E-mail *", "contact_mail", "E-mail address", required, "")
	b.labelled(310, 520, 235, "2.5 Telephone", "contact_tel", "Telephone number", 0, "")
	b.heading(490, "3  Stay")
	b.Text(50, 475, 8, "3.1 Purposes")
	b.Field(50, 425, 235, 46, fmt.Sprintf("/FT /Ch /T (purposes) /TU (Purposes) /Ff %d /DA (/Helv 9 Tf 0 0 0.5 rg) /Opt [(Work) (Study) "+
		"(Family) (Research)]", multi))
	b.Text(310, 475, 8, "3.2 Reasons *")
	b.TextField(310, 400, 235, 71, "reasons", "Reasons for the application", required|multiline, "")
	b.Text(50, 850-842+50, 7, "Form RP-101, page 1 of 2")

	b.Page()
	b.heading(790, "4  Children")
	for row := range 3 {
		y := 755 - float64(row)*40
		b.labelled(50, y, 235, "Name", fmt.Sprintf("child_%d_name", row+1), fmt.Sprintf("Name of child %d", row+1), 0, "")
		b.labelled(310, y, 110, "Born (DD.MM.YYYY)", fmt.Sprintf("child_%d_born", row+1), fmt.Sprintf("Child %d born (DD.MM.YYYY)", row+1),
			0, "")
	}
	b.heading(630, "5  Declaration")
	b.CheckBox(50, 605, "consent", "I declare that the information is complete and correct", "Agreed", required)
	b.Text(70, 608, 9, "I declare that the information is complete and correct. *")
	b.labelled(50, 565, 110, "Date (YYYY-MM-DD) *", "signed_on", "Date of signature (YYYY-MM-DD)", required, "")
	b.Text(50, 50, 7, "Form RP-101, page 2 of 2")
	info := b.Add("<< /Title (Application for a Residence Permit) >>")
	b.Trailer = fmt.Sprintf("/Info %d 0 R", info)
	return b.Bytes()
}

func (b *Builder) heading(y float64, s string) {
	b.Text(50, y, 11, s)
	b.Rule(50, y-5, 545, y-5)
}

func (b *Builder) labelled(x, y, w float64, printed, name, label string, flags int, more string) {
	b.Text(x, y+20, 8, printed)
	b.TextField(x, y, w, 17, name, label, flags, more)
}

// HTMLApplication is the same application as a page of a web site.
const HTMLApplication = `<!doctype html>
<html><head><title>Application for a Residence Permit</title><script>document.title = "run"</script></head><body>
<form action="https://permits.example/apply" method="post">
<input type="hidden" name="csrf" value="t0ken">
<label for="sn">Surname *</label> <input id="sn" name="surname" required maxlength="40">
<label>Given names <input name="given_names" required></label>
<label>Date of birth <input type="date" name="dob" required></label>
<fieldset><legend>Sex</legend>
<label><input type="radio" name="sex" value="f" required> Female</label>
<label><input type="radio" name="sex" value="m"> Male</label></fieldset>
<label>Nationality <select name="nationality" required><option value="">Please choose</option><option value="FR">France<option value="PL">Poland</select></label>
<label>E-mail <input type="email" name="contact" required></label>
<label>Postcode <input name="zip" autocomplete="postal-code" pattern="[0-9-]{4,8}"></label>
<label>Reasons <textarea name="reasons" required></textarea></label>
<table><tr><td><input name="child[]" aria-label="Name of child"><td><input name="born[]" type="date">
<tr><td><input name="child[]"><td><input name="born[]" type="date"></table>
<label><input type="checkbox" name="consent" value="1" required> I declare that this is correct</label>
<input type="file" name="photo"><button>Send</button>
</form></body></html>
`
