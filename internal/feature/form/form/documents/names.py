"""Names of fields and of data: their words, synonyms and rows."""

import re
import unicodedata

_REMARK = re.compile(r"\([^)]*\)|\*")
_GENERATED = re.compile(r"\[\d+\]\.|^topmostSubform|#subform")
_LARGEST_ROW = 10_000
_IDLE = frozenset(
    "the of your my please enter a an for applicant applicants field input txt text form topmost subform page required optional if any and"
    .split()
)

# Names of the same thing; the first of a line is the canonical one.
_SAME = {other: canonical for canonical, _, others in (line.partition(": ") for line in """\
first_name: given_name given_names forename forenames firstname fname christian_name first vorname prenom
last_name: surname family_name lastname lname last nachname
full_name: name fullname full_legal_name person_name complete_name
date_birth: birth_date birthdate dob birthday bday born date_of_birth geburtsdatum
place_birth: birth_place birthplace
email: e_mail mail email_address e_mail_address mail_address
phone: telephone tel phone_number telephone_number mobile mobile_phone mobile_number cell contact_number daytime_phone
street: street_address address_line_1 address_line1 address_1 street_house_number street_number address_street
city: town address_city city_town town_city address_level_2 residence_city ort
postcode: zip zip_code postal_code post_code address_postcode address_zip address_postal_code plz
state: province region county address_level_1 address_state state_province
country: address_country country_name country_residence
nationality: citizenship
gender: sex
iban: bank_account_iban account_iban iban_number account_number_iban
bic: swift swift_code bic_swift
passport: passport_number passport_no
tax_id: tax_number taxpayer_identification_number tin tax_identification_number tax_no
ssn: social_security_number social_security_no social_security
company: employer organization organisation company_name employer_name organization_name organisation_name
occupation: job_title profession job position
signature_date: date_signed date_signature signed_on
marital: marital_status civil_status
""".splitlines()) for other in others.split()}


def clean(s):
    """Return a text in one line, without what marks a required field."""
    s = " ".join(s.split()).rstrip("*: ")
    return s if len(s) <= 200 else s[:199] + "…"


def some(names):
    """List the first names."""
    return ", ".join(names if len(names) <= 5 else [*names[:5], "…"])


def words(s):
    """Split a name or a label into lower-case words and numbers, without accents, remarks in parentheses and words without meaning."""
    out, word, last = [], "", ""

    def end():
        nonlocal word
        if word and word not in _IDLE:
            out.append(word)
        word = ""

    for c in unicodedata.normalize("NFD", _REMARK.sub(" ", s)):
        if c in "'’" or unicodedata.category(c) == "Mn":
            continue
        if not c.isalpha() and not c.isdecimal():
            end()
        else:
            if last and (c.isdecimal() != last.isdecimal() or c.isupper() and last.islower()):
                end()
            word += c.lower()
        last = c
    end()
    return out


def canonical(parts):
    """Return the name that all names of one thing have in common."""
    s = "_".join(parts)
    return _SAME.get(s, s)


def singular(parts):
    """Return words that name a group, as the name of one of its rows."""
    return [_singular(w) for w in parts]


def _singular(w):
    if w == "children":
        return "child"
    if len(w) > 4 and w.endswith("ies"):
        return w[:-3] + "y"
    if len(w) > 3 and w.endswith("s") and not w.endswith("ss"):
        return w[:-1]
    return w


def own_name(name):
    """Return the part of a field's name that a person chose: in a PDF the last part of "form1[0].Page1[0].Surname[0]"."""
    return name.rpartition(".")[2].removesuffix("[0]") if _GENERATED.search(name) else name


def find_rows(fields):
    """Find fields that repeat: those whose names differ only in a number, such as "child_1_name" and "child_2_name".

    Their rows are counted from 1 in the order of the numbers.
    """
    places, numbers, repeats = [], {}, {}
    for f in fields:
        if f.row or f.repeats or not (at := _split_row(words(own_name(f.name)))):
            continue
        group, number, column = at
        places.append((f, *at))
        numbers.setdefault(group, set()).add(number)
        repeats.setdefault((group, column), set()).add(number)
    order = {group: {n: row for row, n in enumerate(sorted(all_), 1)} for group, all_ in numbers.items()}
    for f, group, number, column in places:
        if len(repeats[group, column]) > 1:
            f.group, f.column, f.row = group, column, order[group][number]


def _split_row(parts):
    """Split the words of a name at its first number: "child 1 name" is in group "child". A name that ends with the number has no group."""
    for i, w in enumerate(parts):
        if not (w.isascii() and w.isdecimal()) or len(w) > 5 or int(w) > _LARGEST_ROW:
            continue
        before, after = singular(parts[:i]), parts[i + 1 :]
        if after:
            return "_".join(before), int(w), canonical(after)
        return ("", int(w), canonical(before)) if before else None
    return None
