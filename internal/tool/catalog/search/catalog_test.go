package search_test

import "github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"

// testCatalog has tools of fictitious servers.
var testCatalog = []search.Doc{
	{Server: "forge", Category: "Code", Name: "listOpenIssues", Description: "List the issues of a repository that are open.",
		ServerDescription: "A place for repositories.", Params: []string{"owner", "repo"}},
	{Server: "forge", Category: "Code", Name: "create_issue", Description: "Open a new issue in a repository.",
		ServerDescription: "A place for repositories.", Params: []string{"title", "body"}},
	{Server: "forge", Category: "Code", Name: "merge-pull-request", Description: "Merge a pull request into its base branch.",
		ServerDescription: "A place for repositories."},
	{Server: "forge", Category: "Code", Name: "delete_branch", Description: "Delete a branch.",
		ServerDescription: "A place for repositories."},
	{Server: "quill", Category: "Writing", Name: "create_post", Description: "Create a post on the blog. The post is visible at once.",
		Functions: []string{"Sets tags"}, UseCases: []string{"Announcing a release to readers"}},
	{Server: "quill", Category: "Writing", Name: "update_post", Description: "Change a post on the blog."},
	{Server: "quill", Category: "Writing", Name: "delete_post", Description: "Delete a post of the blog for good."},
	{Server: "quill", Category: "Writing", Name: "check_spelling", Description: "Check the spelling of a text."},
	{Server: "skies", Category: "Weather", Name: "get_forecast", Description: "Get the weather forecast for a city over the next days.",
		Params: []string{"city", "days"}},
	{Server: "skies", Category: "Weather", Name: "airquality",
		Description: "Reports how clean it is to breathe: the quality of the air at a place. Air is measured hourly; bad quality is " +
			"a risk."},
	{Server: "skies", Category: "Weather", Name: "get_tides",
		Description: "High and low water at a coast. Needs the quality of the chart and the air pressure."},
	{Server: "ledger", Category: "money", Name: "send_invoice", Description: "Send an invoice to a customer."},
	{Server: "ledger", Category: "money", Name: "list_payments", Description: "List payments that came in."},
	{Server: "ledger", Category: "money", Name: "convert_currency", Description: "Convert an amount from one currency to another."},
	{Server: "ledger", Category: "money", Name: "refund", Description: "Return a payment to who paid it."},
	{Server: "mailroom", Category: "Mail", Name: "send_email", Description: "Send an e-mail to one or more people.",
		Params: []string{"to", "subject", "body"}},
	{Server: "mailroom", Category: "Mail", Name: "search_inbox", Description: "Find messages in the inbox by words, sender or date."},
	{Server: "mailroom", Category: "Mail", Name: "snooze", Description: "Hide a message until later."},
	{Server: "cloudy", Category: "Cloud", Name: "eventhub_consumergroup_get", Description: "Get the consumer groups of an event hub."},
	{Server: "cloudy", Category: "Cloud", Name: "vm_restart", Description: "Restart a virtual machine."},
	{Server: "cloudy", Category: "Cloud", Name: "db_query", Description: "Run SQL on a managed database."},
	{Server: "cloudy", Category: "Cloud", Name: "storage_bucket_list", Description: "List the buckets of an account."},
	{Server: "deck", Category: "Office", Name: "add_slide", Description: "Append a slide to a presentation."},
	{Server: "deck", Category: "Office", Name: "export_pdf", Description: "Write a presentation to a PDF file."},
	{Server: "kitchen", Category: "Food", Name: "find_recipes", Description: "Find recipes by ingredients at hand."},
	{Server: "kitchen", Category: "Food", Name: "plan_meals", Description: "Plan the meals of a week."},
	{Server: "routes", Category: "Travel", Name: "search_flights", Description: "Search flights between two airports on a date."},
	{Server: "routes", Category: "Travel", Name: "book_hotel", Description: "Reserve a room in a hotel."},
	{Server: "routes", Category: "Travel", Name: "get_directions", Description: "Directions from one address to another."},
	{Server: "历史", Category: "History", Name: "search_events", Description: "搜索历史事件。"},
	{Server: "empty", Name: "noop"},
	{},
}

// names returns the names of hits.
func names(h search.Hits) (names []string) {
	for _, f := range h.Found {
		names = append(names, testCatalog[f.Doc].Name)
	}
	return names
}
