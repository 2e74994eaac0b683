package platform

import "github.com/fireonce/fireonce/clients/go/connectionsv1"

// Flag is a flag of the command line that sets one field of a message. The field's type decides
// the flag's: a text, a number, a switch, a duration, an enum, or a list of one of them.
type Flag struct {
	// Name is the flag's, without dashes. Platforms may share one.
	Name string
	// Usage is the help text. The platforms' names are put in front of it.
	Usage string
	// Placeholder stands for the value in help texts. Empty: a word for its type, or the last of Name.
	Placeholder string
	// Field is the path of the field in the message, such as "keep_answer.headers".
	Field string
	// Default is the value that an absent flag has. Empty: an absent flag sets nothing.
	Default string
	// DefaultText is what an absent flag means, for the help text, where Default is empty.
	DefaultText string
	// Required refuses an absent flag.
	Required bool
	// Hint ends the message that refuses an absent or a wrong value, with its separator.
	Hint string
	// With is the flag that this one goes with, at the value WithValue. Empty: no other one.
	With, WithValue string
	// RequiredWith is what is asked where that flag has that value and this one is absent.
	// Empty: it may be absent.
	RequiredWith string
	// Words are the values of an enum as people write them. Empty: as the enum's own names,
	// without their prefix and in lower case.
	Words []Word
	// Label heads the line that shows the field of a stored connection. Empty: it is not shown.
	// Fields with one label share its line.
	Label string
	// Shown is how the value is shown, with one %s for it, or none; or ShownPort. Empty: as it is.
	Shown string
}

const (
	// ShownPort joins a port to the host before it on its line.
	ShownPort = ":%s"
	// ShownNot hides a value.
	ShownNot = "-"
)

// Word is a value of an enum.
type Word struct {
	// Text is the word on the command line, Value the enum's name for it.
	Text, Value string
	// Shown replaces Flag.Shown for this value; ShownNot hides it.
	Shown string
}

// Dedupes are the words for connectionsv1.ReceiverDedupes.
func Dedupes() []Word {
	return []Word{
		{Text: "yes", Value: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES.String()},
		{Text: "no", Value: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO.String()},
	}
}

// ReceiverFlags are the flags of connectors whose target is a receiver of the user's own: what
// only its owner knows, and what is kept of its answers.
func ReceiverFlags() []Flag {
	return []Flag{
		{
			Name: "receiver-dedupes", Usage: "yes or no: does the receiver ignore repeats of a key?", Placeholder: "ANSWER", Field: "receiver_dedupes", Words: Dedupes(),
			Required: true, Hint: "; if you do not know, it is no",
		},
		{
			Name: "key-window", Usage: "with --receiver-dedupes yes: for how long it remembers a key; 48h or more let a webhook be repeated for a day", Field: "key_window", Label: "Key window",
			With: "receiver-dedupes", WithValue: "yes", RequiredWith: "for how long does it remember a key? 48h or more, if it can: half of it is for repeats, and a webhook is tried for a day",
		},
		{
			Name: "dedupes-in-flight", Usage: "with --receiver-dedupes yes: two requests with one key that it processes concurrently have one effect",
			Field: "dedupes_in_flight", With: "receiver-dedupes", WithValue: "yes", Label: "Key window", Shown: "also of requests under way",
		},
		{
			Name: "max-handling-time", Usage: "how long the receiver may work on one request, if that can be longer than the answer is waited for",
			Field: "max_handling_time", Label: "Handling", DefaultText: "the answer timeout",
		},
		{
			Name: "origin", Usage: "a URL without path that jobs may address; needed where secrets are sent as they are; may be repeated", Placeholder: "URL",
			Field: "origins", Label: "Origins",
		},
		{
			Name: "unacted", Placeholder: "ANSWER", Usage: "an answer by which a proxy proves that the receiver did not act, such as \"502 X-Refused-By: edge\" or " +
				"\"503 body: no healthy upstream\"; only you can know it; may be repeated", Field: "unacted", DefaultText: "none", Label: "Unacted",
		},
		{
			Name: "refusal", Usage: "for how long a refusal is temporary, such as 404=15m, 410=final or 400=retry; may be repeated", Placeholder: "STATUS=DURATION", Field: "refusals",
			DefaultText: "as docs/statuses.md says",
		},
		{Name: "quote-answers", Usage: "quote answers in errors although requests carry a credential, which a receiver may repeat", Field: "quote_answers"},
		{Name: "keep-header", Usage: "a header of answers that is kept with each attempt; may be repeated", Placeholder: "NAME", Field: "keep_answer.headers"},
		{
			Name: "keep-body", Usage: "how many bytes of each answer's body are kept with the attempt; at most 16384", Field: "keep_answer.max_body_bytes",
			DefaultText: "none",
		},
	}
}

// BaseURL is the flag of a platform that is many servers.
func BaseURL(required bool) Flag {
	return Flag{Name: "base-url", Usage: "the URL of the server's API", Field: "base_url", Required: required, Label: "API"}
}
