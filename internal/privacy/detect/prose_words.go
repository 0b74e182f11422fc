package detect

import "strings"

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// places lists given names that often denote places or products. They need another name.
var places = wordSet(`paris london austin madison sydney florence victoria charlotte jordan georgia virginia carolina dakota dallas houston israel chad
kenya chelsea brooklyn savannah lincoln jackson orlando phoenix vienna milan geneva verona alexandria augusta asia india china france america africa
ireland cuba panama santiago sofia adelaide melbourne washington diego francisco jersey york kent berkeley california darwin boston denver memphis troy odessa valencia
jenkins travis ruby julia jade crystal opal pearl java maven claude gemini siri alexa cortana watson eclipse aurora apollo atlas phoenix mercury
angular ember vue kafka galaxy hugo gerrit monty salesforce logan trinity genesis salem bethlehem`)

// speech lists verbs after a name alone.
var speech = wordSet(`said says wrote writes lives lived explained explains told tells asked asks thinks thought spent had has listed began joined works
worked replied replies reported reports noted notes suggested suggests agreed agrees complained complains ordered signed met came went saw sees wants
wanted needs needed likes liked loves loved knows knew feels felt got gets took takes gave gives made makes sent sends bought moved lost found believes
hopes hoped insisted refused promised thanked thanks confirmed confirms mentioned mentions pointed is was will would could should can did does doesn't
didn't isn't wasn't hasn't won't died married grew studied teaches taught plays played sang retired called calls bring brought and`)

// relations lists nouns after a name with "'s".
var relations = wordSet(`address name email e-mail mail phone mobile number account house home flat apartment office wife husband mother father parents
brother sister son daughter child children family friend birthday passport order car dog cat manager boss letter message report request comment comments
suggestion patch patches advice idea opinion question answer desk laptop computer password calendar team salary contract invoice appointment diagnosis
doctor job work life age death request`)

// introductions lists texts before a name, which can be any capitalized word if it is not
// one of English.
var introductions = []string{"name is", "named", "directed by", "starring", "written by", "sung by", "reported by", "signed by",
	"authored by", "painted by",
	"composed by", "reviewed by", "signed-off-by:", "reviewed-by:", "reported-by:", "tested-by:", "acked-by:", "co-authored-by:",
	"suggested by", "contributed by",
	"invented by", "created by", "designed by", "produced by", "assigned to", "assistant to", "thanks to", "maintained by", "debianized by",
	"author is", "maintainer is",
	"author:", "reporter:", "assignee:", "regards,\n", "sincerely,\n", "cheers,\n", "thanks,\n", "wishes,\n", "yours,\n", "truly,\n",
	"greetings,\n"}

// greetings lists texts before a name alone, also before a rare one.
var greetings = []string{"hi", "hello", "hey", "dear", "thanks", "thanks,", "thank you", "thank you,", "ask"}

// addressing lists texts before a common given name alone.
var addressing = append([]string{"asked", "tell", "told", "let", "notify", "call", "called",
	"contact", "meet", "met", "invite", "invited", "remind", "email", "thank", "with", "from", "to", "by", "for", "cc:", "to:", "from:",
	"husband", "wife", "son",
	"daughter", "brother", "sister", "friend", "colleague", "manager", "accountant", "boss", "neighbor", "neighbour", "mother", "father",
	"uncle", "aunt", "patient", "customer",
	"saw", "help", "helped", "gave", "given", "visit", "visited", "love", "loves", "marry", "married", "that", "says", "said", "because",
	"if", "when", "while", "and", "this is"}, greetings...)

var articles = []string{"the", "a", "an", "this", "each", "every", "no", "your", "our"}

// titles lists words before a surname.
var titles = wordSet("Herr Frau Mme Madame Monsieur Señor Señora Signor Signora Sir Lady Lord Miss Mister Mr Mrs Ms Dr Doctor Prof " +
	"Professor Uncle Aunt Nurse " +
	"Sergeant Detective Lieutenant Senator")

// groups lists words before a list of surnames.
var groups = []string{"founders:", "authors:", "members:", "partners:", "owners:", "students:", "colleagues:", "friends:", "players:",
	"attendees:", "participants:",
	"reviewers:", "maintainers:", "contributors:", "editors:", "candidates:", "witnesses:", "directors:", "managers:"}
