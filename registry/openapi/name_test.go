package openapi_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names were cut at 64 characters, and of operations whose names then were the same only
// the first became a tool.
func TestNoOperationVanishesBehindTheNameOfAnother(t *testing.T) {
	a := newAPI(t)
	names := map[string]string{ // by path
		"/v3/a": "organizations_custom-properties-for-repositories-create-o-5b02ec",
		"/v3/b": "organizations_custom-properties-for-repositories-create-o-58cfac",
		"/v3/c": "disputes_list-7257aa",
		"/v3/d": "disputes_list-c7a650",
		"/v3/e": "getUser-e28ebf",
		"/v3/f": "GetUser-5a42f9",
		"/v3/g": "twice-b474b1",
		"/v3/h": "twice-f98760",
		"/v3/shops/1/orders/2/lines/3/parcels/4/letters":  "get_shops_shop_orders_order_lines_line_parcels_parcel_letters",
		"/v3/shops/1/orders/2/lines/3/parcels/4/labels/5": "get_shops_shop_orders_order_lines_line_parcels_parcel_lab-b19eb6",
		"/v3/plain": "plain",
	}
	tools, refused := load(t, a.config(document(t, "names.yaml")))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	got := map[string]string{}
	for name, tool := range tools {
		arguments := `{}`
		if properties := tool.Definition.Object("inputSchema").Object("properties"); properties.Has("label") {
			arguments = `{"shop":"1","order":"2","line":"3","parcel":"4","label":"5"}`
		} else if properties.Has("parcel") {
			arguments = `{"shop":"1","order":"2","line":"3","parcel":"4"}`
		}
		mustUse(t, tool, arguments)
		r, _ := a.last(t)
		got[r.RequestURI] = name
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if len(tools) != 11 {
		t.Errorf("got %d tools, want 11", len(tools))
	}
}

// A name does not depend on which of the operations are included.
func TestNamesDoNotDependOnWhatIsIncluded(t *testing.T) {
	tools, _ := load(t, newAPI(t).config(document(t, "names.yaml"), "disputes/list", "GET /e"))
	if got, want := slices.Sorted(maps.Keys(tools)), []string{
		"disputes_list-7257aa",
		"getUser-e28ebf",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of parameters like Sent, Sent< and Sent>, the third refused the operation, and the
// second was called query.Sent or not, depending on their order.
func TestParametersThatDifferInSignsAreToldApart(t *testing.T) {
	a := newAPI(t)
	tools, refused := load(t, a.config(document(t, "comparisons.yaml")))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	for name, want := range map[string]string{
		"Sent": "Sent", "Sent_lt": "Sent%3C", "Sent_gt": "Sent%3E", "Sent_gte": "Sent%3E%3D",
		"a_b": "a_b", "a_b-c8687a": "a%20b", "a_b-6e12db": "a%20%20b", "limit-55ea09": "limit",
		"Limit-674b0e": "Limit",
		"a-very-long-name-of-a-parameter-that-has-more-than-64-cha-788a05": "a-very-long-name-of-a-parameter-that-has-more-than-64-characters-one",
		"a-very-long-name-of-a-parameter-that-has-more-than-64-cha-02b1b8": "a-very-long-name-of-a-parameter-that-has-more-than-64-characters-two",
	} {
		mustUse(t, tools["calls"], `{"`+name+`":"x"}`)
		if r, _ := a.last(t); r.RequestURI != "/v3/calls?"+want+"=x" {
			t.Errorf("%s: got %s, want %s", name, r.RequestURI, want)
		}
	}
}
