package detect

import (
	"slices"
	"sync"
)

// allRecognizers lists the recognizers. They are independent of each other: overlaps of what they find are
// resolved by score and size, whatever the order.
var allRecognizers = slices.Concat(
	[]recognizer{
		emails, phones, cards, accounts,
		socialSecurityNumbers, taxpayerNumbers, hintedSocialSecurityNumbers, hintedTaxpayerNumbers, passports, licenses,
		ipv4Addresses, ipv6Addresses,
		ethereumAddresses, segwitAddresses, coinAddresses,
		urlCredentials, webhookPaths, userOptions, webTokens, privateKeys, issuedKeys, assignedSecrets,
		salutations, quotedKeys, lineLabels,
	},
	macAddresses, keyFormats,
)

var recognizers = sync.OnceValue(func() *index { return indexOf(allRecognizers) })
