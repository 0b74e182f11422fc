package guardrail

import "strings"

// class is what a word can be in a phrase; a word may be several.
type wordClass uint32

const (
	ignores  wordClass = 1 << iota // ignore, forget
	override                       // override, which programs do too
	back                           // previous, above
	any_                           // all, your
	orders                         // instructions
	prompt                         // prompt
	ifs                            // if
	you                            // you
	are                            // are
	now                            // now
	model                          // assistant, LLM
	agent                          // agent, which people are too
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
	does                           // what a comment may want done
)

// vocabulary are the words that mean something, in lower case.
var vocabulary = map[string]wordClass{}

// shapes are the lengths of the words that begin with a byte, one bit each.
var wordLengths = func() (of [256]uint32) {
	for c, words := range map[wordClass]string{
		ignores:  "ignore disregard forget neglect ignoriere ignorieren ignorier vergiss vergessen missachte ignorez oublie oubliez ignora ignorar ignorad olvida olvide olvidad",
		override: "override overrides supersede supersedes",
		back:     "previous previously prior above earlier preceding foregoing vorherigen vorherige bisherigen bisherige obigen précédentes précédents précédente precedentes anteriores previas",
		any_:     "all any every each your alle sämtliche toutes tous todas todos tus sus vos",
		orders:   "instruction instructions guidelines anweisung anweisungen instrucciones consignes vorgaben",
		prompt:   "prompt prompts conversation directive directives rules",
		ifs:      "if falls wenn si",
		you:      "you you're du sie vous usted",
		are:      "are are you're youre bist sind êtes eres",
		now:      "now",
		model:    "ai assistant assistants llm llms chatbot chatgpt gpt claude copilot gemini",
		agent:    "agent agents model models",
		freed:    "jailbroken unrestricted unfiltered dan uncensored",
		must:     "must should shall need needs muss soll doit debe",
		sends:    "send sends forward upload email mail post transfer delete disregard ignore reveal leak exfiltrate share",
		not:      "not never without don't dont nicht ohne sans ne sin",
		tells:    "tell telling inform informing mention mentioning alert alerting notify notifying erwähne erwähnen informiere mentionner mencionar",
		user:     "user users human humans nutzer benutzer utilisateur usuario",
		reveals:  "reveal print output repeat leak show send display expose disclose recite",
		your:     "your",
		own:      "system initial original hidden secret internal",
		decodes:  "decode decoded decoding base64 atob b64decode",
		obeys:    "execute follow obey eval",
		does: "send call run execute fetch post delete upload read ignore reply respond include forward email use invoke add open create write " +
			"insert append tell say must always never",
	} {
		for w := range strings.FieldsSeq(words) {
			vocabulary[w] |= c
			of[w[0]] |= 1 << len(w)
		}
	}
	return of
}()

// phrase are words of some classes, in the order begins … ends, near each other.
type phrase struct {
	kind   string
	begins wordClass
	ends   wordClass
	needs  []wordClass // all of the classes of one of these, beginning and end included
	next   bool        // the first two that mean something follow each other
	most   int         // words from the first to the last; 0 means window
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

// roleTags are what models are told by who speaks, and answers of tools.
var roleTags = []string{
	"<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>",
	"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<system>", "</system>", "<system-reminder", "</system-reminder", "<system_prompt", "<system-prompt",
	"<system_message", "<system-message", "<assistant>", "</assistant>", "<tool_result", "</tool_result", "<tool_response", "<tool_call>",
	"<function_result", "</function_result", "<function_calls", "</function_calls",
}

// longestTag is at least the length of the longest of them, and of "<!--".
const longestTag = 32
