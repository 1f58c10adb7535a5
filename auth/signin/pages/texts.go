package pages

import (
	"strconv"
	"strings"
)

// Language is a language that pages are written in.
type Language string

// The languages that there are.
const (
	English Language = "en"
	German  Language = "de"
)

// LanguageOf returns the language that a browser prefers, by the header Accept-Language.
// Of two with the same weight the first counts; English is what is left.
// https://www.rfc-editor.org/rfc/rfc9110#section-12.5.4
func LanguageOf(header string) Language {
	best, weight := English, 0.0
	for part := range strings.SplitSeq(header, ",") {
		name, parameter, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if text, given := strings.CutPrefix(strings.TrimSpace(parameter), "q="); given {
			q, _ = strconv.ParseFloat(text, 64) // what is no number weighs nothing
		}
		language, _, _ := strings.Cut(strings.ToLower(name), "-")
		if _, known := texts[Language(language)]; known && q > weight {
			best, weight = Language(language), q
		}
	}
	return best
}

// Problem is what went wrong, as a person is told it.
type Problem string

// The problems that a person is told of.
const (
	UnknownClient  Problem = "unknown_client"
	BadRedirect    Problem = "bad_redirect"
	BadRequest     Problem = "bad_request"
	OtherBrowser   Problem = "other_browser"
	AlreadyDone    Problem = "already_done"
	ProviderFailed Problem = "provider_failed"
	ProviderDenied Problem = "provider_denied"
	NoAccess       Problem = "no_access"
	TooMany        Problem = "too_many"
	Unavailable    Problem = "unavailable"
	Refused        Problem = "refused"
	Impossible     Problem = "impossible" // a program asked for it
)

// explanation is what a person reads about a problem: what happened, and what to do.
type explanation struct{ Title, What, Cure string }

// wording has all texts of one language.
type wording struct {
	ChooseTitle, ChooseLead, ChooseWith                             string
	ConsentTitle, ConsentLead                                       string
	Program, Document, Unnamed, Sends, ThisMachine, You, Tenant     string
	TenantLead, Scopes, AllScopes, NoScopes, Warning, LocalDocument string
	Allow, Deny                                                     string
	MoveTitle, MoveLead, MoveLink, MoveClose                        string
	DeniedTitle, DeniedLead, ForPeople                              string
	Problems                                                        map[Problem]explanation
}

// texts are all words that people read in the pages, by language.
var texts = map[Language]wording{
	English: {
		ChooseTitle:  "Choose where you sign in",
		ChooseLead:   "You can sign in at more than one place.",
		ChooseWith:   "Sign in with",
		ConsentTitle: "Allow this program?",
		ConsentLead:  "A program asks to use tools in your name.",
		Program:      "Program, by its own word",
		Document:     "Described at",
		Unnamed:      "It gives no name",
		Sends:        "The answer goes to",
		ThisMachine:  "a program on this machine",
		You:          "You are",
		Tenant:       "Tenant",
		TenantLead:   "Choose the tenant that the program may use",
		Scopes:       "It may",
		AllScopes:    "do all that you may do, also what you will be allowed later",
		NoScopes:     "do what everybody of the tenant may do",
		Warning: "Go on only if you have just begun this yourself, in the program that is named here. To " +
			"use another account, sign out of this one where you signed in, and start again in the program.",
		LocalDocument: "Any program on this machine can say that it is this one. Make sure that you have " +
			"started it yourself.",
		Allow:       "Allow",
		Deny:        "Do not allow",
		MoveTitle:   "You are signed in",
		MoveLead:    "Your browser goes back to the program now.",
		MoveLink:    "Go back to the program",
		MoveClose:   "If nothing happens, use the link. Then you can close this page.",
		DeniedTitle: "You have not allowed it",
		DeniedLead:  "The program gets no access. It is told so now.",
		ForPeople:   "If you ask your administrator for help, tell this number:",
		Problems: map[Problem]explanation{
			UnknownClient: {
				"This program is not known here",
				"The program has a registration that has ended or was never made here.",
				"In the program, remove the sign-in of this server and connect again: in Claude Code use " +
					"/mcp and “Clear authentication”, in VS Code the command “Authentication: Remove " +
					"Dynamic Authentication Providers”, in Codex “codex mcp logout”.",
			},
			BadRedirect: {
				"The answer would go to a wrong place",
				"The program wants the answer at an address that it has not registered.",
				"Remove the sign-in of this server in the program and connect again. If you did not start " +
					"a program, close this page: somebody may have sent you a link to mislead you.",
			},
			BadRequest: {
				"This address is not complete", "Something is missing in the address, or stands in it twice.",
				"If you have copied the address, copy all of it. Otherwise start again in the program that " +
					"you want to connect.",
			},
			OtherBrowser: {
				"This sign-in does not go on here",
				"It was begun in another browser, or more than ten minutes ago, or you have answered " +
					"it already.",
				"Go back to the program. If it still waits, start again there, stay in one browser, and " +
					"let it keep cookies. If you did not start a program, close this page.",
			},
			AlreadyDone: {
				"This is done already", "You have answered this before, so the program has what it needs.",
				"Go back to the program. If it still waits, start again there.",
			},
			ProviderFailed: {
				"The sign-in service does not answer",
				"The service that knows who you are could not be reached, or its answer was not fit.",
				"Try again in a few minutes, from the program.",
			},
			ProviderDenied: {
				"You were not signed in", "The service that knows who you are has ended the sign-in.",
				"Start again in the program, with the account of your company.",
			},
			NoAccess: {
				"Your account has no access here",
				"The service that knows who you are has signed you in with an account that may not use " +
					"this address.",
				"If you have another account, sign out of this one at that service and start again in " +
					"the program. If not, ask your administrator for access, or use the address that you " +
					"were given.",
			},
			TooMany: {
				"Too many programs are connected", "No more programs can be connected at this moment.",
				"Tell your administrator.",
			},
			Unavailable: {
				"Sign-in is not possible now",
				"A part that is needed cannot be reached at this moment. What is connected goes on working.",
				"Try again in a few minutes, from the program.",
			},
			Refused: {
				"This answer was not accepted",
				"The answer did not come from the page that was shown to you.",
				"Start again in the program. If you did not start a program, close this page.",
			},
			Impossible: {
				"The program asked for something that is not possible", "Nothing was changed.",
				"Go back to the program, and start again there. If it asks for the same again, tell your " +
					"administrator. If you did not start a program, close this page.",
			},
		},
	},
	German: {
		ChooseTitle:  "Wo möchten Sie sich anmelden?",
		ChooseLead:   "Sie können sich an mehreren Stellen anmelden.",
		ChooseWith:   "Anmelden mit",
		ConsentTitle: "Dieses Programm zulassen?",
		ConsentLead:  "Ein Programm möchte in Ihrem Namen Werkzeuge benutzen.",
		Program:      "Programm, nach eigener Angabe",
		Document:     "Beschrieben unter",
		Unnamed:      "Es nennt keinen Namen",
		Sends:        "Die Antwort geht an",
		ThisMachine:  "ein Programm auf diesem Gerät",
		You:          "Sie sind",
		Tenant:       "Mandant",
		TenantLead:   "Wählen Sie den Mandanten, den das Programm benutzen darf",
		Scopes:       "Es darf",
		AllScopes:    "alles tun, was Sie dürfen, auch was Ihnen später erlaubt wird",
		NoScopes:     "tun, was alle im Mandanten dürfen",
		Warning: "Fahren Sie nur fort, wenn Sie dies gerade selbst im genannten Programm begonnen " +
			"haben. Um ein anderes Konto zu benutzen, melden Sie sich dort ab, wo Sie sich angemeldet " +
			"haben, und beginnen Sie im Programm noch einmal.",
		LocalDocument: "Jedes Programm auf diesem Gerät kann sich als dieses ausgeben. Vergewissern Sie " +
			"sich, dass Sie es selbst gestartet haben.",
		Allow:       "Zulassen",
		Deny:        "Nicht zulassen",
		MoveTitle:   "Sie sind angemeldet",
		MoveLead:    "Ihr Browser geht jetzt zum Programm zurück.",
		MoveLink:    "Zurück zum Programm",
		MoveClose:   "Wenn nichts geschieht, benutzen Sie den Link. Danach können Sie diese Seite schließen.",
		DeniedTitle: "Sie haben es nicht zugelassen",
		DeniedLead:  "Das Programm bekommt keinen Zugang. Das wird ihm jetzt gesagt.",
		ForPeople:   "Wenn Sie Ihre Administration um Hilfe bitten, nennen Sie diese Nummer:",
		Problems: map[Problem]explanation{
			UnknownClient: {
				"Dieses Programm ist hier nicht bekannt",
				"Seine Registrierung ist abgelaufen oder wurde nie hier gemacht.",
				"Entfernen Sie im Programm die Anmeldung dieses Servers und verbinden Sie es neu: in " +
					"Claude Code mit /mcp und „Clear authentication“, in VS Code mit „Authentication: " +
					"Remove Dynamic Authentication Providers“, in Codex mit „codex mcp logout“.",
			},
			BadRedirect: {
				"Die Antwort ginge an eine falsche Stelle",
				"Das Programm will die Antwort an einer Adresse, die es nicht registriert hat.",
				"Entfernen Sie im Programm die Anmeldung dieses Servers und verbinden Sie es neu. Wenn Sie " +
					"kein Programm gestartet haben, schließen Sie diese Seite: vielleicht will Sie jemand " +
					"täuschen.",
			},
			BadRequest: {
				"Diese Adresse ist nicht vollständig",
				"In der Adresse fehlt etwas, oder etwas steht zweimal darin.",
				"Wenn Sie die Adresse kopiert haben, kopieren Sie sie ganz. Sonst beginnen Sie im Programm " +
					"noch einmal.",
			},
			OtherBrowser: {
				"Diese Anmeldung geht hier nicht weiter",
				"Sie wurde in einem anderen Browser begonnen oder vor mehr als zehn Minuten, oder Sie " +
					"haben schon geantwortet.",
				"Gehen Sie zum Programm zurück. Wenn es noch wartet, beginnen Sie dort noch einmal, " +
					"bleiben Sie in einem Browser und erlauben Sie ihm Cookies. Wenn Sie kein Programm " +
					"gestartet haben, schließen Sie diese Seite.",
			},
			AlreadyDone: {
				"Das ist schon erledigt",
				"Sie haben hier bereits geantwortet, und das Programm hat, was es braucht.",
				"Gehen Sie zum Programm zurück. Wenn es noch wartet, beginnen Sie dort noch einmal.",
			},
			ProviderFailed: {
				"Der Anmeldedienst antwortet nicht",
				"Der Dienst, der Sie kennt, war nicht zu erreichen, oder seine Antwort war nicht brauchbar.",
				"Versuchen Sie es in einigen Minuten noch einmal, vom Programm aus.",
			},
			ProviderDenied: {
				"Sie wurden nicht angemeldet", "Der Dienst, der Sie kennt, hat die Anmeldung beendet.",
				"Beginnen Sie im Programm noch einmal, mit dem Konto Ihrer Firma.",
			},
			NoAccess: {
				"Ihr Konto hat hier keinen Zugang",
				"Der Dienst, der Sie kennt, hat Sie mit einem Konto angemeldet, das diese Adresse nicht " +
					"benutzen darf.",
				"Wenn Sie ein anderes Konto haben, melden Sie sich dort von diesem ab und beginnen Sie " +
					"im Programm noch einmal. Wenn nicht, bitten Sie Ihre Administration um Zugang, oder " +
					"nehmen Sie die Adresse, die man Ihnen genannt hat.",
			},
			TooMany: {
				"Zu viele Programme sind verbunden", "Im Augenblick können keine weiteren verbunden werden.",
				"Sagen Sie es Ihrer Administration.",
			},
			Unavailable: {
				"Anmelden geht gerade nicht",
				"Etwas, das dazu nötig ist, ist im Augenblick nicht zu erreichen. Was verbunden ist, " +
					"arbeitet weiter.",
				"Versuchen Sie es in einigen Minuten noch einmal, vom Programm aus.",
			},
			Refused: {
				"Diese Antwort wurde nicht angenommen",
				"Sie kam nicht von der Seite, die Ihnen gezeigt wurde.",
				"Beginnen Sie im Programm noch einmal. Wenn Sie kein Programm gestartet haben, schließen " +
					"Sie diese Seite.",
			},
			Impossible: {
				"Das Programm hat etwas verlangt, was nicht geht", "Es wurde nichts geändert.",
				"Gehen Sie zum Programm zurück und beginnen Sie dort noch einmal. Verlangt es wieder " +
					"dasselbe, sagen Sie es Ihrer Administration. Wenn Sie kein Programm gestartet haben, " +
					"schließen Sie diese Seite.",
			},
		},
	},
}
