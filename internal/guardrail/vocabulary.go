package guardrail

import "strings"

// wordClass is the set of meanings of a word in a phrase.
type wordClass uint32

const (
	ignores  wordClass = 1 << iota // ignore, forget
	override                       // override; programs use it too
	back                           // previous, above
	any_                           // all, your
	orders                         // instructions
	prompt                         // prompt
	ifs                            // if
	you                            // you
	are                            // are
	now                            // now
	model                          // assistant, LLM
	agent                          // agent; may mean a person
	freed                          // jailbroken
	must                           // must
	sends                          // send, forward, delete
	not                            // not, never, without
	tells                          // tell, mention
	user                           // user
	reveals                        // print, reveal
	your                           // your
	own                            // system, initial
	decodes                        // decode
	obeys                          // execute, follow
	does                           // an action that a comment may demand
)

// vocabulary maps words in lower case to their classes.
var vocabulary = map[string]wordClass{}

// wordLengths holds, for each first byte, the lengths of the words that begin with it,
// one bit each.
var wordLengths = func() (of [256]uint32) {
	for c, words := range map[wordClass]string{
		ignores: "ignore disregard forget neglect ignoriere ignorieren ignorier vergiss vergessen missachte ignorez oublie oubliez " +
			"ignora ignorar ignorad olvida olvide olvidad",
		override: "override overrides supersede supersedes",
		back: "previous previously prior above earlier preceding foregoing vorherigen vorherige bisherigen bisherige obigen " +
			"précédentes précédents précédente precedentes anteriores previas",
		any_:   "all any every each your alle sämtliche toutes tous todas todos tus sus vos",
		orders: "instruction instructions guidelines anweisung anweisungen instrucciones consignes vorgaben",
		prompt: "prompt prompts conversation directive directives rules",
		ifs:    "if falls wenn si",
		you:    "you you're du sie vous usted",
		are:    "are are you're youre bist sind êtes eres",
		now:    "now",
		model:  "ai assistant assistants llm llms chatbot chatgpt gpt claude copilot gemini",
		agent:  "agent agents model models",
		freed:  "jailbroken unrestricted unfiltered dan uncensored",
		must:   "must should shall need needs muss soll doit debe",
		sends:  "send sends forward upload email mail post transfer delete disregard ignore reveal leak exfiltrate share",
		not:    "not never without don't dont nicht ohne sans ne sin",
		tells: "tell telling inform informing mention mentioning alert alerting notify notifying erwähne erwähnen informiere " +
			"mentionner mencionar",
		user:    "user users human humans nutzer benutzer utilisateur usuario",
		reveals: "reveal print output repeat leak show send display expose disclose recite",
		your:    "your",
		own:     "system initial original hidden secret internal",
		decodes: "decode decoded decoding base64 atob b64decode",
		obeys:   "execute follow obey eval",
		does: "send call run execute fetch post delete upload read ignore reply respond include forward email use invoke add open " +
			"create write " +
			"insert append tell say must always never",
	} {
		for w := range strings.FieldsSeq(words) {
			vocabulary[w] |= c
			of[w[0]] |= 1 << len(w)
		}
	}
	return of
}()

// phrase is a pattern of words: one of class begins, later one of class ends, and
// words of the classes needs in between, near each other.
type phrase struct {
	kind   string
	begins wordClass
	ends   wordClass
	needs  []wordClass // one of these must be complete, including begin and end
	next   bool        // the first two classified words are adjacent
	most   int         // maximum number of words from first to last; 0: window
}

var phrases = []phrase{
	{InjectionOverride, ignores, orders | back | any_, []wordClass{ignores | orders | back, ignores | orders | any_}, false, 0},
	{InjectionOverride, ignores, prompt | back, []wordClass{ignores | prompt | back}, false, 0},
	{InjectionOverride, override, orders | back, []wordClass{override | orders | back}, false, 0},
	{InjectionAddress, ifs, model, []wordClass{ifs | you | are | model}, false, 5},
	{InjectionAddress, you, model | freed, []wordClass{you | are | now | model, you | are | now | freed}, false, 0},
	{InjectionAddress, model, sends, []wordClass{model | must | sends}, true, 0},
	{InjectionSecrecy, not, user, []wordClass{not | tells | user}, false, 0},
	{InjectionReveal, reveals, prompt | orders, []wordClass{reveals | your | own | prompt, reveals | your | own | orders}, false, 0},
}

// roleTags are the delimiters of roles and tool results in prompts.
var roleTags = []string{
	"<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>",
	"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<system>", "</system>", "<system-reminder", "</system-reminder", "<system_prompt",
	"<system-prompt",
	"<system_message", "<system-message", "<assistant>", "</assistant>", "<tool_result", "</tool_result", "<tool_response", "<tool_call>",
	"<function_result", "</function_result", "<function_calls", "</function_calls",
}

// longestTag is at least the length of the longest tag and of "<!--".
const longestTag = 32
