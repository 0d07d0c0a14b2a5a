//! Puts scripts together from the files of `lua/`.

/// Includes the text of a file of `lua/`.
macro_rules! lua {
    ($($name:literal),+) => {
        include_str!(concat!("../../../../lua/", $($name,)+ ".lua"))
    };
}
pub(super) use lua;

/// The texts of an algorithm's files, and the names of the locals in which its peek leaves the state.
pub(super) struct Parts {
    peek: &'static str,
    commit: &'static str,
    release: &'static str,
    state: &'static str,
}

macro_rules! parts {
    ($name:literal, $state:literal) => {
        Parts {
            peek: lua!($name, "/peek"),
            commit: lua!($name, "/commit"),
            release: lua!($name, "/release"),
            state: $state,
        }
    };
}

pub(super) const FIXED_WINDOW: Parts =
    parts!("fixed_window", "value, start, used, is_new, is_changed");
pub(super) const SLIDING_WINDOW: Parts = parts!(
    "sliding_window",
    "index, value, first_at, bytes, newest, total, gathered"
);
pub(super) const SLIDING_LOG: Parts = parts!("sliding_log", "view");
pub(super) const GCRA: Parts = parts!("gcra", "tat, begun, given, reach, is_changed");
pub(super) const CALENDAR: Parts =
    parts!("calendar", "value, current, used, ends, is_new, is_changed");
const CREDITS: Parts = parts!("credits", "balance");
const PENALTY: Parts = parts!("penalty", "value, ends, length, is_changed");
pub(super) const IN_FLIGHT: Parts = parts!(
    "in_flight",
    "rows, gateway, others, own, announced, highest, is_changed"
);
pub(super) const LOG_FUNCTIONS: &str = lua!("sliding_log/functions");

/// The first lines of a script that may create keys; a full server refuses to execute it.
pub(super) const CREATING: &str = "#!lua\nlocal CREATES_KEYS = true\n";
/// The first lines of a script that creates no keys, and that a full server executes.
pub(super) const EXISTING: &str = "#!lua flags=allow-oom\nlocal CREATES_KEYS = false\n";

/// Words in a file, each with the constant that replaces it. A local variable in its place would have to be bound, at
/// every call, to each function that reads it.
type Words = &'static [(&'static str, &'static str)];

/// Constants for sliding windows of fewer than 128 buckets.
pub(super) const SHORT_WINDOW: Words = &[
    ("WEIGHTED", "2"),
    ("DROPPED", "4"),
    ("INDEX_BYTES", "1"),
    ("INDEXES", "256"),
    ("PHASE", "128"),
    ("VALUE_OF_4", "\">BI7I7c0BI4\""),
    ("VALUE_OF_7", "\">BI7I7c0BI7\""),
    ("BUCKET_OF_4", "\">BI4\""),
    ("BUCKET_OF_7", "\">BI7\""),
    ("FIRST_BUCKET", "\">BI7I7BI4\""),
];
/// Constants for sliding windows of 128 buckets and more.
const LONG_WINDOW: Words = &[
    ("WEIGHTED", "9"),
    ("DROPPED", "11"),
    ("INDEX_BYTES", "2"),
    ("INDEXES", "65536"),
    ("PHASE", "512"),
    ("VALUE_OF_4", "\">BI7I7c0I2I4\""),
    ("VALUE_OF_7", "\">BI7I7c0I2I7\""),
    ("BUCKET_OF_4", "\">I2I4\""),
    ("BUCKET_OF_7", "\">I2I7\""),
    ("FIRST_BUCKET", "\">BI7I7I2I4\""),
];

/// Replaces words in a text.
pub(super) fn with(words: Words, text: &str) -> String {
    (words.iter()).fold(text.to_owned(), |text, (word, stands)| {
        text.replace(word, stands)
    })
}

/// Concatenates a script's first lines, all algorithms, and a driver.
pub(super) fn of_all(head: &str, driver: &str) -> String {
    let sliding_window = maker("sliding_window", "", &SLIDING_WINDOW);
    let long_window = maker("long_window", "", &SLIDING_WINDOW);
    [
        head,
        lua!("prelude"),
        &maker("fixed_window", "", &FIXED_WINDOW),
        &with(SHORT_WINDOW, &sliding_window),
        &with(LONG_WINDOW, &long_window),
        &maker("sliding_log", LOG_FUNCTIONS, &SLIDING_LOG),
        &maker("gcra", "", &GCRA),
        "\nlocal OUTSIDE = \"OUTSIDE \"\n",
        &maker("calendar", "", &CALENDAR),
        &maker("credits", "", &CREDITS),
        &maker("penalty", "", &PENALTY),
        &maker("in_flight", "", &IN_FLIGHT),
        lua!("algorithms"),
        driver,
    ]
    .concat()
}

/// Renders the Lua function that makes an algorithm's functions when they are first needed.
fn maker(name: &str, functions: &str, parts: &Parts) -> String {
    let Parts {
        peek,
        commit,
        release,
        state,
    } = parts;
    format!(
        "\nlocal function {name}()\n{functions}\n\
         local function peek(key, room, x, y, number, plan)\n{peek}\
         return fits, is_known, {state}\nend\n\n\
         local function commit(key, cost, room, x, y, flags, {state})\n{commit}\
         return facts\nend\n{release}\
         return peek, commit, release\nend\n"
    )
}

/// Concatenates a script for plans of one check.
pub(super) fn of_one(functions: &str, parts: &Parts) -> String {
    [
        CREATING,
        lua!("prelude"),
        functions,
        lua!("check/begin"),
        parts.peek,
        lua!("check/cost"),
        parts.commit,
        lua!("check/reply"),
    ]
    .concat()
}
