package lexicon

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
