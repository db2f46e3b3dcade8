// How times, amounts and people are put in words.

let ahead = 0; // seconds by which the service's clock is ahead of the browser's

/** The service's time in epoch seconds. */
export const now = () => Date.now() / 1000 + ahead;

/** Sets the clock by the date of an answer, unless the network may account for the difference. */
export function setClock(date) {
  const off = Date.parse(date) / 1000 - now();
  if (Math.abs(off) > 5) ahead += off;
}

/** A span of time, in the two largest units: "8 s", "12 min", "1 h 05". */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}`;
}

/** How long ago a time is. */
export function ago(time) {
  const passed = now() - time;
  return passed < 2 ? "just now" : `${span(passed)} ago`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** The time of day in the reader's own time zone. */
export const clock = (time) => clockFormat.format(time * 1000);
export const minute = (time) => minuteFormat.format(time * 1000);

const numbers = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number with its thousands apart; above 99,999 rounded. */
export const number = (n) => (n > 99_999 ? short : numbers).format(n);

/** "1 action", "2 actions". */
export const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;

/** An amount of memory. */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i > 0 && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** The ids that posthog-js makes up for visitors: UUIDs of version 7. */
const madeUp = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

/** Whether nobody has said who this is. */
export const isVisitor = (row) => !row.email && (!row.user || madeUp.test(row.user));

/** Whom a session belongs to. */
export const who = (row) => (isVisitor(row) ? "Visitor" : row.email || row.user);

/** The states of assistance. */
const states = {
  thinking: "Watching",
  proactive_assistance: "Help offered",
  reactive_assistance: "Talking",
  guidance_execution: "Being guided",
  conservative_assistance: "Holding back",
};

export const stateName = (state) => states[state] ?? state.replaceAll("_", " ");

const maxName = 40;

/** What the page at a canonical URL is called; the service's own words (activity.PageName). */
export function pageName(canonical) {
  if (!canonical) return "";
  let path = canonical.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  const hash = path.indexOf("#");
  if (hash >= 0) path = path.slice(hash + 1).replace(/^!/, "") || path.slice(0, hash);
  const segments = path.split("/").filter((segment) => segment !== "");
  if (segments.length === 0) return "home";
  const last = segments.findLastIndex((segment) => segment !== ":id");
  if (last < 0) return "detail";
  return segmentName(segments[last]) + (last < segments.length - 1 ? " detail" : "");
}

function segmentName(segment) {
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // It is not escaped.
  }
  name = name.replace(/[-_]/g, " ").toLowerCase();
  name = name.replace(/\s/g, " ").replace(/(?!\u200d)[\p{Cc}\p{Cf}]/gu, "").split(" ").filter(Boolean).join(" ").replace(/^[\u200d ]+|[\u200d ]+$/g, "");
  return cut(name) || "unnamed";
}

function cut(name) {
  const characters = [...name];
  if (characters.length <= maxName) return name;
  const head = characters.slice(0, maxName).join("");
  const space = head.lastIndexOf(" ");
  return (space > 0 ? head.slice(0, space) : characters.slice(0, maxName - 1).join("")).trimEnd() + "…";
}

/** The first letter of a sentence or a name in upper case. */
export const capitalise = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** What an address shows beside its page's name: the path of a web page. */
export function pathOf(url) {
  try {
    const parsed = new URL(url);
    return parsed.pathname + parsed.hash;
  } catch {
    return url;
  }
}
