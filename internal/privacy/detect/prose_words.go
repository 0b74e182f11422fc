package detect

import "strings"

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// things lists words that are part of names of streets, places, organizations, products,
// days and the like. With one of them, words are not the name of a person.
const things = `
street st road rd avenue ave lane drive way court square boulevard blvd alley terrace crescent close turnpike crossing highway route bypass
park garden gardens bridge gate hill hills valley river lake sea bay beach island islands mount mountain mountains forest creek harbor harbour
point port fort falls springs ridge heights grove city town village county state states district province region republic kingdom airport station
apt suite floor building tower plaza center centre mall hotel house hall church cathedral castle palace temple museum theatre theater stadium arena
inc incorporated ltd limited llc plc gmbh corp corporation co company ag sa bv oy group holdings partners associates brothers sons bank capital insurance
financial industries international global systems solutions technologies technology software labs laboratory laboratories studio studios media records
press books publishing news times journal magazine post herald tribune review network networks foundation institute institution university college school
academy society association union league club team committee council commission agency department ministry office bureau court parliament congress senate
party church hospital clinic act bill law treaty agreement convention amendment award prize medal cup championship series festival day week month year
january february march april may june july august september october november december monday tuesday wednesday thursday friday saturday sunday
mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec christmas easter
algorithm theorem lemma conjecture equation method model process distribution transform filter tree graph index matrix function code test criterion
server client service database cluster node cloud api sdk ide app application platform framework library engine driver kernel shell script editor browser
desktop studio console terminal manager daemon bot agent plugin module package version release edition project repository issue request user users admin
license licence report error warning note table figure chapter section appendix page file folder list group field column
linux ubuntu debian fedora windows android ios macos unix apache mozilla google microsoft amazon oracle intel nvidia github gitlab docker kubernetes
azure aws python java javascript rust ruby perl scala julia crystal swift kotlin jenkins travis grafana prometheus redis kafka postgres mysql sqlite
maven gradle jira slack zoom tesla toyota honda mercedes benz samsung sony siemens adobe cisco dell lenovo ibm sap
new north south east west northern southern eastern western central upper lower great saint san santa los las
america american american europe european africa african asia asian australia australian canada canadian china chinese japan japanese india indian
france french germany german spain spanish italy italian england english britain british russia russian greek latin roman
christian catholic jewish muslim protestant democrat democrats republican
`

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
var introductions = []string{"name is", "named", "directed by", "starring", "written by", "sung by", "reported by", "signed by", "authored by", "painted by",
	"composed by", "reviewed by", "signed-off-by:", "reviewed-by:", "reported-by:", "tested-by:", "acked-by:", "co-authored-by:", "suggested by", "contributed by",
	"invented by", "created by", "designed by", "produced by", "assigned to", "assistant to", "thanks to", "maintained by", "debianized by", "author is", "maintainer is",
	"author:", "reporter:", "assignee:", "regards,\n", "sincerely,\n", "cheers,\n", "thanks,\n", "wishes,\n", "yours,\n", "truly,\n", "greetings,\n"}

// addressing lists texts before a given name alone.
var addressing = []string{"hi", "hello", "hey", "dear", "thanks", "thanks,", "thank you", "thank you,", "ask", "asked", "tell", "told", "let", "notify", "call", "called",
	"contact", "meet", "met", "invite", "invited", "remind", "email", "thank", "with", "from", "to", "by", "for", "cc:", "to:", "from:", "husband", "wife", "son",
	"daughter", "brother", "sister", "friend", "colleague", "manager", "accountant", "boss", "neighbor", "neighbour", "mother", "father", "uncle", "aunt", "patient", "customer",
	"saw", "help", "helped", "gave", "given", "visit", "visited", "love", "loves", "marry", "married", "that", "says", "said", "because", "if", "when", "while", "and", "this is"}

var articles = []string{"the", "a", "an", "this", "each", "every", "no", "your", "our"}

// titles lists words before a surname.
var titles = wordSet("Herr Frau Mme Madame Monsieur Señor Señora Signor Signora Sir Lady Lord Miss Mister Mr Mrs Ms Dr Doctor Prof Professor Uncle Aunt Nurse " +
	"Sergeant Detective Lieutenant Senator")

// groups lists words before a list of surnames.
var groups = []string{"founders:", "authors:", "members:", "partners:", "owners:", "students:", "colleagues:", "friends:", "players:", "attendees:", "participants:",
	"reviewers:", "maintainers:", "contributors:", "editors:", "candidates:", "witnesses:", "directors:", "managers:"}
