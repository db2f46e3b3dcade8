// The shop: pages that change without loading, a cart and a checkout.

import { byId, h } from "./dom.js";
import { bySlug, goods, groups, money } from "./goods.js";
import { recall, save } from "./state.js";

const base = "/demo/shop";
const delivery = { Standard: 4.9, Express: 12.9 };

let posthog;
let group = "All";

/** A link within the shop. */
function link(path, props, ...children) {
  return h("a", { href: base + path, ...props }, ...children);
}

/** Goes to a page of the shop. */
function go(path) {
  if (location.pathname !== base + path) history.pushState(null, "", base + path + location.hash);
  visit();
}

const cart = () => recall().cart ?? {};

function setCart(slug, count) {
  const changed = { ...cart(), [slug]: count };
  if (count <= 0) delete changed[slug];
  save({ cart: changed });
}

const inCart = () => Object.entries(cart()).filter(([slug]) => bySlug(slug));
const subtotal = () => inCart().reduce((sum, [slug, count]) => sum + bySlug(slug).price * count, 0);
const pieces = () => inCart().reduce((sum, [, count]) => sum + count, 0);

function picture(item, size) {
  return h("img", { src: `/demo/static/${item.image}`, alt: "", width: size, height: size, class: "picture" });
}

function card(item) {
  return link(`/products/${item.slug}`, { class: "card" }, picture(item, 200), h("span", { class: "card-name" }, item.name), h("p", { class: "price" }, money(item.price))); // not in the name of the link
}

function home() {
  const shown = goods.filter((g) => group === "All" || g.group === group);
  return ["Everything for the desk", [
    h("header", { class: "hero" }, h("h1", {}, "Good things for long days"), h("p", {}, "Light, wood and coffee for the place where you work. Delivered in two days.")),
    h("div", { class: "chips", role: "group", "aria-label": "Show" }, ["All", ...groups].map((name) => h("button", {
      type: "button", class: "chip", "aria-pressed": String(name === group), onclick: () => { group = name; draw(); },
    }, name))),
    h("div", { class: "grid" }, shown.map(card)),
  ]];
}

function product(slug) {
  const item = bySlug(slug);
  if (!item) return missing();
  const others = goods.filter((g) => g.group === item.group && g !== item).concat(goods.filter((g) => g.group !== item.group)).slice(0, 2);
  return [item.name, [
    link("", { class: "crumb" }, "All products"),
    h("article", { class: "product" },
      h("div", { class: "frame" }, picture(item, 320)),
      h("div", { class: "about" },
        h("h1", {}, item.name), h("p", { class: "lead" }, item.lead), h("p", { class: "price big" }, money(item.price)),
        h("form", { name: "add to cart", onsubmit: (event) => {
          event.preventDefault();
          setCart(item.slug, (cart()[item.slug] ?? 0) + 1);
          go("/cart");
        } },
        h("label", {}, "Colour", h("select", { name: "colour" }, item.colours.map((c) => h("option", {}, c)))),
        h("button", { class: "primary" }, "Add to cart")),
        h("details", {}, h("summary", {}, "What it is made of"), h("p", {}, item.text)),
        h("details", {}, h("summary", {}, "Delivery and returns"), h("p", {}, "Two days within the country, free above €75. You have 30 days to send it back.")))),
    h("h2", {}, "Or rather"),
    h("div", { class: "grid" }, others.map(card)),
  ]];
}

function cartPage() {
  const rows = inCart();
  if (!rows.length) return ["Cart", [h("h1", {}, "Your cart is empty"), h("p", { class: "lead" }, "The lamp would look good on your desk."), link("", { class: "button primary" }, "Continue shopping")]];
  const step = (slug, by) => () => { setCart(slug, (cart()[slug] ?? 0) + by); draw(); };
  return ["Cart", [
    h("h1", {}, "Your cart"),
    h("ul", { class: "rows" }, rows.map(([slug, count]) => {
      const item = bySlug(slug);
      return h("li", {}, picture(item, 64),
        h("div", {}, link(`/products/${slug}`, {}, item.name), h("p", { class: "muted" }, money(item.price))),
        h("div", { class: "count", role: "group", "aria-label": `How many of ${item.name}` },
          h("button", { type: "button", "aria-label": `One ${item.name} less`, onclick: step(slug, -1) }, "−"),
          h("span", {}, String(count)),
          h("button", { type: "button", "aria-label": `One more ${item.name}`, onclick: step(slug, 1) }, "+")));
    })),
    h("p", { class: "total" }, h("span", {}, "Subtotal"), h("b", {}, money(subtotal()))),
    h("div", { class: "row" }, link("/checkout", { class: "button primary" }, "Checkout"), link("", { class: "button" }, "Continue shopping")),
  ]];
}

function field(label, props) {
  return h("label", {}, label, h("input", { required: true, maxlength: 200, ...props }));
}

function checkout() {
  if (!pieces()) return cartPage();
  return ["Checkout", [
    link("/cart", { class: "crumb" }, "Back to the cart"),
    h("h1", {}, "Checkout"),
    h("form", { name: "checkout", class: "form", onsubmit: (event) => {
      event.preventDefault();
      const email = String(new FormData(event.target).get("email")).trim();
      posthog.identify(userIdOf(email), email);
      save({ cart: {}, order: (recall().order ?? 1041) + 1 });
      go(`/orders/${recall().order}`);
    } },
    field("Email", { name: "email", type: "email", autocomplete: "email", placeholder: "you@example.com", value: posthog.email }),
    field("Name", { name: "name", autocomplete: "name" }),
    field("Street and city", { name: "address", autocomplete: "street-address" }),
    h("fieldset", {}, h("legend", {}, "Delivery"), Object.entries(delivery).map(([name, price], i) => h("label", { class: "radio" },
      h("input", { type: "radio", name: "delivery", value: name, checked: i === 0 }), h("span", {}, name), h("span", { class: "muted" }, money(price))))),
    h("p", { class: "total" }, h("span", {}, `${pieces()} ${pieces() === 1 ? "item" : "items"}, with standard delivery`), h("b", {}, money(subtotal() + delivery.Standard))),
    h("button", { class: "primary" }, "Place order"),
    h("p", { class: "muted" }, "Nothing is sold, and what you type here stays in this page, but for the email address.")),
  ]];
}

function account() {
  if (posthog.email) return ["Account", [h("h1", {}, "Your account"), h("p", { class: "lead" }, `Signed in as ${posthog.email}.`), link("", { class: "button" }, "Continue shopping")]];
  return ["Account", [
    h("h1", {}, "Sign in"),
    h("p", { class: "lead" }, "Without a password, it is a demo. Any address will do."),
    h("form", { name: "sign in", class: "form", onsubmit: (event) => {
      event.preventDefault();
      const email = String(new FormData(event.target).get("email")).trim();
      posthog.identify(userIdOf(email), email);
      draw();
    } },
    field("Email", { name: "email", type: "email", autocomplete: "email", placeholder: "you@example.com" }),
    h("button", { class: "primary" }, "Sign in")),
  ]];
}

/** The user id of an address, as a shop's own data base would have one. */
function userIdOf(email) {
  let n = 7;
  for (const c of email.toLowerCase()) n = (n * 31 + c.codePointAt(0)) % 90_000;
  return `customer-${10_000 + n}`;
}

function order() {
  return ["Thank you", [
    h("div", { class: "thanks" }, h("h1", {}, "Thank you!"), h("p", { class: "lead" }, `Order ${recall().order ?? ""} is on its way, in a manner of speaking.`),
      link("", { class: "button primary" }, "Continue shopping")),
  ]];
}

function shipping() {
  return ["Delivery", [
    h("h1", {}, "Delivery and returns"),
    h("p", { class: "lead" }, "Two days within the country, free above €75."),
    h("p", {}, "Send anything back within 30 days, used or not. The label is in the box."),
    link("/cart", { class: "button" }, "To the cart"),
  ]];
}

function missing() {
  return ["Not found", [h("h1", {}, "This page is gone"), link("", { class: "button primary" }, "To the shop")]];
}

function view() {
  const [page = "", id = ""] = location.pathname.slice(base.length).split("/").filter(Boolean);
  const pages = { "": home, products: () => product(id), cart: cartPage, checkout, account, orders: order, delivery: shipping };
  return (Object.hasOwn(pages, page) ? pages[page] : missing)();
}

/** Shows the page of the address, and returns its title. */
function draw() {
  const [title, content] = view();
  const n = pieces();
  const hasFocus = byId("shop").contains(document.activeElement);
  const focused = document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent;
  const page = h("div", { class: "page", tabindex: -1 }, content);
  byId("shop").replaceChildren(
    h("header", { class: "shop-head" },
      link("", { class: "logo" }, "Lumen & Oak"),
      h("nav", { "aria-label": "Shop" }, link("/delivery", {}, "Delivery"), link("/account", {}, posthog.email ? "Account" : "Sign in"),
        link("/cart", { class: "cart", "aria-label": `Cart, ${n} ${n === 1 ? "item" : "items"}` }, "Cart", n ? h("b", {}, String(n)) : null))),
    page);
  const same = [...page.querySelectorAll("button")].find((b) => (b.getAttribute("aria-label") ?? b.textContent) === focused);
  if (hasFocus) (same ?? page).focus({ preventScroll: true });
  byId("address").textContent = location.host + location.pathname;
  document.title = `${title} · liveactivity demo`;
  return title;
}

/** Comes to a page: it is shown and reported. */
function visit() {
  const title = draw();
  byId("shop").scrollTop = 0;
  posthog.pageview(title);
}

/** Opens the shop at the page of the address. */
export function openShop(reporter) {
  posthog = reporter;
  byId("shop").addEventListener("click", (event) => {
    const to = event.target.closest("a[href]");
    if (!to || event.ctrlKey || event.metaKey || event.shiftKey || !to.pathname.startsWith(base)) return;
    event.preventDefault();
    go(to.pathname.slice(base.length));
  });
  addEventListener("popstate", () => { if (location.pathname.startsWith(base)) visit(); });
  if (!location.pathname.startsWith(base)) history.replaceState(null, "", base + location.hash);
  visit();
}

/** Begins at the first page again. */
export function reopenShop() {
  group = "All";
  go("");
}
