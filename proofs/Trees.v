(** * Sums and trees: how a proof shows that one constraint follows from others

    This file mechanizes R1 and R2 of docs/kernel.md: the checker of sums and trees is a function, and
    [check_sound] says that for every valuation of the premises some leaf's needs hold, for some values of the
    names that the tree introduces. *)

From Coq Require Import ZArith List Lia Bool.
Import ListNotations.
Local Open Scope Z_scope.

(** ** Terms *)

(** [Const c] is a number, [Plus k a t] is [k * a + t]. Names and functions are numbers. *)
Inductive term := Const (c : Z) | Plus (k : Z) (a : atom) (t : term)
with atom := Name (n : nat) | Apply (f : nat) (t : term).

Scheme term_mut := Induction for term Sort Prop
with atom_mut := Induction for atom Sort Prop.
Combined Scheme both_mut from term_mut, atom_mut.

Section Trees.
  (** Values of functions. *)
  Variable phi : nat -> Z -> Z.

  Fixpoint eval (rho : nat -> Z) (t : term) : Z :=
    match t with Const c => c | Plus k a r => k * eval_atom rho a + eval rho r end
  with eval_atom (rho : nat -> Z) (a : atom) : Z :=
    match a with Name n => rho n | Apply f t => phi f (eval rho t) end.

  Fixpoint term_eqb (s t : term) : bool :=
    match s, t with
    | Const c, Const d => c =? d
    | Plus k a r, Plus l b q => (k =? l) && atom_eqb a b && term_eqb r q
    | _, _ => false
    end
  with atom_eqb (a b : atom) : bool :=
    match a, b with
    | Name n, Name m => Nat.eqb n m
    | Apply f s, Apply g t => Nat.eqb f g && term_eqb s t
    | _, _ => false
    end.

  Lemma eqb_sound : (forall s t, term_eqb s t = true -> s = t) /\ (forall a b, atom_eqb a b = true -> a = b).
  Proof.
    apply both_mut; simpl; intros.
    - destruct t; [|discriminate]. apply Z.eqb_eq in H. congruence.
    - destruct t0; [discriminate|]. apply andb_true_iff in H1. destruct H1 as [H1 H2].
      apply andb_true_iff in H1. destruct H1 as [H1 H3]. apply Z.eqb_eq in H1. subst.
      rewrite (H a0), (H0 t0); auto.
    - destruct b; [|discriminate]. apply Nat.eqb_eq in H. congruence.
    - destruct b; [discriminate|]. apply andb_true_iff in H0. destruct H0 as [H0 H1].
      apply Nat.eqb_eq in H0. subst. rewrite (H t0); auto.
  Qed.

  (** [insert k a t] is [k * a + t], where [a] is collected. *)
  Fixpoint insert (k : Z) (a : atom) (t : term) : term :=
    match t with
    | Const c => Plus k a (Const c)
    | Plus l b r => if atom_eqb a b then Plus (k + l) b r else Plus l b (insert k a r)
    end.

  Fixpoint shift (c : Z) (t : term) : term :=
    match t with Const e => Const (c + e) | Plus l b r => Plus l b (shift c r) end.

  (** [plus d s t] is [d * s + t]. *)
  Fixpoint plus (d : Z) (s t : term) : term :=
    match s with
    | Const c => shift (d * c) t
    | Plus k a r => insert (d * k) a (plus d r t)
    end.

  Lemma eval_insert : forall rho k a t, eval rho (insert k a t) = k * eval_atom rho a + eval rho t.
  Proof.
    intros rho k a t. induction t as [c|l b r IH]; simpl; [reflexivity|].
    destruct (atom_eqb a b) eqn:H; simpl; [|rewrite IH; lia].
    apply eqb_sound in H. subst. lia.
  Qed.

  Lemma eval_shift : forall rho c t, eval rho (shift c t) = c + eval rho t.
  Proof. intros rho c t. induction t as [e|l b r IH]; simpl; [reflexivity|rewrite IH; lia]. Qed.

  Lemma eval_plus : forall rho d s t, eval rho (plus d s t) = d * eval rho s + eval rho t.
  Proof.
    intros rho d s t. induction s as [c|k a r IH]; simpl; [apply eval_shift|].
    rewrite eval_insert, IH. lia.
  Qed.

  Definition minus (s t : term) : term := plus (-1) t s.
  Lemma eval_minus : forall rho s t, eval rho (minus s t) = eval rho s - eval rho t.
  Proof. intros. unfold minus. rewrite eval_plus. lia. Qed.

  (** The number that a term is, if all its coefficients cancel. *)
  Fixpoint flat (t : term) : option Z :=
    match t with Const c => Some c | Plus k _ r => if k =? 0 then flat r else None end.

  Lemma flat_sound : forall rho t c, flat t = Some c -> eval rho t = c.
  Proof.
    intros rho t. induction t as [e|k a r IH]; simpl; intros c H; [congruence|].
    destruct (k =? 0) eqn:K; [|discriminate]. apply Z.eqb_eq in K. subst. rewrite (IH c H). lia.
  Qed.

  (** Names that a term may mention. *)
  Fixpoint uses (scope : list nat) (t : term) : bool :=
    match t with Const _ => true | Plus _ a r => uses_atom scope a && uses scope r end
  with uses_atom (scope : list nat) (a : atom) : bool :=
    match a with
    | Name n => existsb (Nat.eqb n) scope
    | Apply _ t => uses scope t
    end.

  Definition agree (scope : list nat) (rho rho' : nat -> Z) : Prop := forall n, In n scope -> rho n = rho' n.

  Lemma eval_agree : forall scope rho rho', agree scope rho rho' ->
    (forall t, uses scope t = true -> eval rho t = eval rho' t) /\
    (forall a, uses_atom scope a = true -> eval_atom rho a = eval_atom rho' a).
  Proof.
    intros scope rho rho' A. apply both_mut; simpl; intros.
    - reflexivity.
    - apply andb_true_iff in H1. destruct H1. rewrite H, H0; auto.
    - apply existsb_exists in H. destruct H as (m & I & E). apply Nat.eqb_eq in E. subst. auto.
    - rewrite H; auto.
  Qed.

  (** ** Sums (R1) *)

  Definition holds (rho : nat -> Z) (gamma : list term) : Prop := forall h, In h gamma -> 0 <= eval rho h.

  (** A divisor, and multipliers of numbered premises. *)
  Record sum := Sum { divisor : Z; parts : list (nat * Z) }.

  Fixpoint less (gamma : list term) (ms : list (nat * Z)) (t : term) : option term :=
    match ms with
    | [] => Some t
    | (i, m) :: r =>
        match nth_error gamma i with
        | Some h => if 0 <=? m then less gamma r (plus (- m) h t) else None
        | None => None
        end
    end.

  Definition follows (gamma : list term) (s : sum) (goal : term) : bool :=
    match less gamma (parts s) (plus (divisor s) goal (Const 0)) with
    | Some t => match flat t with Some c => (1 <=? divisor s) && (1 - divisor s <=? c) | None => false end
    | None => false
    end.

  Lemma less_sound : forall rho gamma, holds rho gamma -> forall ms t t', less gamma ms t = Some t' ->
    eval rho t' <= eval rho t.
  Proof.
    intros rho gamma G ms. induction ms as [|[i m] r IH]; simpl; intros t t' H; [inversion H; lia|].
    destruct (nth_error gamma i) as [h|] eqn:N; [|discriminate].
    destruct (0 <=? m) eqn:M; [|discriminate]. apply Z.leb_le in M.
    apply IH in H. rewrite eval_plus in H. apply nth_error_In in N. pose proof (G h N). nia.
  Qed.

  Theorem follows_sound : forall rho gamma s goal, holds rho gamma -> follows gamma s goal = true ->
    0 <= eval rho goal.
  Proof.
    intros rho gamma s goal G F. unfold follows in F.
    destruct (less gamma (parts s) (plus (divisor s) goal (Const 0))) as [t|] eqn:L; [|discriminate].
    destruct (flat t) as [c|] eqn:C; [|discriminate].
    apply andb_true_iff in F. destruct F as [D B]. apply Z.leb_le in D. apply Z.leb_le in B.
    apply (less_sound rho gamma G) in L. rewrite eval_plus in L. simpl in L.
    apply (flat_sound rho) in C. nia.
  Qed.

  (** ** Trees (R2) *)

  (** Functions that start at 0 and never fall. *)
  Variable prefix : nat -> bool.
  Hypothesis prefix_zero : forall f, prefix f = true -> phi f 0 = 0.
  Hypothesis prefix_grows : forall f a b, prefix f = true -> a <= b -> phi f a <= phi f b.

  (** Constraints that hold for every value of one name. *)
  Variable schemas : list (nat * term).
  Variable parameters : list nat.
  Hypothesis schemas_closed : forall x t, In (x, t) schemas -> uses (x :: parameters) t = true.

  Definition update (rho : nat -> Z) (v : nat) (z : Z) : nat -> Z := fun n => if Nat.eqb n v then z else rho n.

  Definition schemas_hold (rho : nat -> Z) : Prop :=
    forall x t, In (x, t) schemas -> forall z, 0 <= eval (update rho x z) t.

  Fixpoint subst (x : nat) (s t : term) : term :=
    match t with
    | Const c => Const c
    | Plus k (Name n) r => if Nat.eqb n x then plus k s (subst x s r) else Plus k (Name n) (subst x s r)
    | Plus k (Apply f u) r => Plus k (Apply f (subst x s u)) (subst x s r)
    end.

  Lemma eval_subst : forall rho x s,
    (forall t, eval rho (subst x s t) = eval (update rho x (eval rho s)) t) /\
    (forall a, match a with
               | Name _ => True
               | Apply f u => eval rho (subst x s u) = eval (update rho x (eval rho s)) u
               end).
  Proof.
    intros rho x s. apply both_mut; simpl; intros; auto.
    destruct a as [n|f u]; simpl.
    - unfold update at 1. destruct (Nat.eqb n x) eqn:E; simpl.
      + rewrite eval_plus, H0. reflexivity.
      + rewrite H0. reflexivity.
    - rewrite H, H0. reflexivity.
  Qed.

  (** [leaf] is what a leaf says; [needs leaf] are the terms that must not be negative there. *)
  Variable leaf : Type.
  Variable needs : leaf -> list term.

  Inductive tree :=
  | Split (c : term) (yes no : tree)
  | Residues (t : term) (v : nat) (branches : forest)
  | Tile (f : nat) (t top : term) (v : nat) (s1 s2 s3 : sum) (rest : tree)
  | Monotone (f : nat) (a b : term) (s : sum) (rest : tree)
  | Congruent (f : nat) (a b : term) (s1 s2 : sum) (rest : tree)
  | Instance (i : nat) (t : term) (rest : tree)
  | Absurd (s : sum)
  | Leaf (l : leaf) (sums : list sum)
  with forest := Nil | Branch (t : tree) (r : forest).

  Scheme tree_mut := Induction for tree Sort Prop
  with forest_mut := Induction for forest Sort Prop.
  Combined Scheme trees_mut from tree_mut, forest_mut.

  Fixpoint size (ks : forest) : nat := match ks with Nil => 0 | Branch _ r => S (size r) end.

  Definition fresh (scope : list nat) (v : nat) : bool := negb (existsb (Nat.eqb v) scope).
  Definition var (v : nat) : term := Plus 1 (Name v) (Const 0).
  Definition app (f : nat) (t : term) : term := Plus 1 (Apply f t) (Const 0).

  Fixpoint all_follow (gamma : list term) (ss : list sum) (goals : list term) : bool :=
    match ss, goals with
    | [], [] => true
    | s :: ss, g :: gs => follows gamma s g && all_follow gamma ss gs
    | _, _ => false
    end.

  Fixpoint check (scope : list nat) (gamma : list term) (t : tree) : bool :=
    match t with
    | Split c yes no =>
        uses scope c && check scope (c :: gamma) yes && check scope (plus (-1) c (Const (-1)) :: gamma) no
    | Residues e v ks =>
        uses scope e && fresh scope v && (0 <? Z.of_nat (size ks)) &&
        check_all (v :: scope) gamma e v (Z.of_nat (size ks)) 0 ks
    | Tile f e top v s1 s2 s3 rest =>
        prefix f && uses scope e && uses scope top && fresh scope v &&
        follows gamma s1 e && follows gamma s2 (plus (-1) e (shift (-1) (app f top))) && follows gamma s3 top &&
        check (v :: scope)
          (minus e (app f (var v)) :: minus (shift (-1) (app f (shift 1 (var v)))) e
             :: var v :: minus (shift (-1) top) (var v) :: gamma) rest
    | Monotone f a b s rest =>
        prefix f && uses scope a && uses scope b && follows gamma s (minus b a) &&
        check scope (minus (app f b) (app f a) :: gamma) rest
    | Congruent f a b s1 s2 rest =>
        uses scope a && uses scope b && follows gamma s1 (minus a b) && follows gamma s2 (minus b a) &&
        check scope (minus (app f a) (app f b) :: minus (app f b) (app f a) :: gamma) rest
    | Instance i e rest =>
        uses scope e &&
        match nth_error schemas i with
        | Some (x, c) => check scope (subst x e c :: gamma) rest
        | None => false
        end
    | Absurd s => follows gamma s (Const (-1))
    | Leaf l ss => all_follow gamma ss (needs l)
    end
  with check_all (scope : list nat) (gamma : list term) (e : term) (v : nat) (r w : Z) (ks : forest) : bool :=
    match ks with
    | Nil => true
    | Branch t rest =>
        check scope (minus e (shift w (plus r (var v) (Const 0)))
                       :: minus (shift w (plus r (var v) (Const 0))) e :: gamma) t &&
        check_all scope gamma e v r (w + 1) rest
    end.

  Fixpoint leaves (t : tree) (l : leaf) : Prop :=
    match t with
    | Split _ yes no => leaves yes l \/ leaves no l
    | Residues _ _ ks => leaves_of ks l
    | Tile _ _ _ _ _ _ _ rest | Monotone _ _ _ _ rest | Congruent _ _ _ _ _ rest | Instance _ _ rest => leaves rest l
    | Absurd _ => False
    | Leaf k _ => k = l
    end
  with leaves_of (ks : forest) (l : leaf) : Prop :=
    match ks with Nil => False | Branch t r => leaves t l \/ leaves_of r l end.

  (** What a tree establishes of a valuation: a leaf whose needs hold, once new names have values. *)
  Definition decides (scope : list nat) (rho : nat -> Z) (l : leaf -> Prop) : Prop :=
    exists rho' k, agree scope rho rho' /\ l k /\ forall g, In g (needs k) -> 0 <= eval rho' g.

  (** Facts about new names. *)

  Lemma agree_update : forall scope rho v z, fresh scope v = true -> agree scope rho (update rho v z).
  Proof.
    intros scope rho v z F n I. unfold update. destruct (Nat.eqb n v) eqn:E; [|reflexivity].
    apply Nat.eqb_eq in E. subst. unfold fresh in F. apply negb_true_iff in F.
    assert (existsb (Nat.eqb v) scope = true) by (apply existsb_exists; exists v; split; auto; apply Nat.eqb_refl).
    congruence.
  Qed.

  Definition closed (scope : list nat) (gamma : list term) : Prop := forall h, In h gamma -> uses scope h = true.

  Lemma uses_more : forall scope v,
    (forall t, uses scope t = true -> uses (v :: scope) t = true) /\
    (forall a, uses_atom scope a = true -> uses_atom (v :: scope) a = true).
  Proof.
    intros scope v. apply both_mut; simpl; intros; auto.
    - apply andb_true_iff in H1. destruct H1. rewrite H, H0; auto.
    - rewrite H. apply orb_true_r.
  Qed.

  Lemma uses_insert : forall scope k a t, uses_atom scope a = true -> uses scope t = true ->
    uses scope (insert k a t) = true.
  Proof.
    intros scope k a t A. induction t as [c|l b r IH]; simpl; intros T.
    - rewrite A. reflexivity.
    - apply andb_true_iff in T. destruct T as [T1 T2]. destruct (atom_eqb a b); simpl.
      + rewrite T1, T2. reflexivity.
      + rewrite T1, IH; auto.
  Qed.

  Lemma uses_shift : forall scope c t, uses scope (shift c t) = uses scope t.
  Proof. intros. induction t as [e|l b r IH]; simpl; [reflexivity|rewrite IH; reflexivity]. Qed.

  Lemma uses_plus : forall scope d s t, uses scope s = true -> uses scope t = true -> uses scope (plus d s t) = true.
  Proof.
    intros scope d s t. induction s as [c|k a r IH]; simpl; intros A B.
    - rewrite uses_shift. auto.
    - apply andb_true_iff in A. destruct A. apply uses_insert; auto.
  Qed.

  Lemma uses_minus : forall scope s t, uses scope s = true -> uses scope t = true -> uses scope (minus s t) = true.
  Proof. intros. apply uses_plus; auto. Qed.

  Lemma uses_app : forall scope f t, uses scope t = true -> uses scope (app f t) = true.
  Proof. intros scope f t H. unfold app. simpl. rewrite H. reflexivity. Qed.

  Lemma uses_var : forall scope v, uses (v :: scope) (var v) = true.
  Proof. intros. unfold var. simpl. rewrite Nat.eqb_refl. reflexivity. Qed.

  Lemma uses_subst : forall scope x s, uses scope s = true ->
    (forall t, uses (x :: scope) t = true -> uses scope (subst x s t) = true) /\
    (forall a, match a with
               | Name _ => True
               | Apply _ u => uses (x :: scope) u = true -> uses scope (subst x s u) = true
               end).
  Proof.
    intros scope x s Us. apply both_mut; simpl; intros; auto.
    apply andb_true_iff in H1. destruct H1 as [H1 H2].
    destruct a as [n|f u]; simpl in *.
    - destruct (Nat.eqb n x) eqn:E.
      + apply uses_plus; auto.
      + simpl in *. rewrite H1. simpl. auto.
    - rewrite H; auto.
  Qed.

  Lemma holds_agree : forall scope rho rho' gamma, agree scope rho rho' -> closed scope gamma ->
    holds rho gamma -> holds rho' gamma.
  Proof.
    intros scope rho rho' gamma A C H h I. rewrite <- (proj1 (eval_agree scope rho rho' A) h (C h I)). auto.
  Qed.

  Lemma schemas_agree : forall scope rho rho', incl parameters scope -> agree scope rho rho' ->
    schemas_hold rho -> schemas_hold rho'.
  Proof.
    intros scope rho rho' P A H x t I z.
    rewrite <- (proj1 (eval_agree (x :: parameters) (update rho x z) (update rho' x z)
                         ltac:(intros n [->|J]; unfold update; [rewrite Nat.eqb_refl; reflexivity|
                               destruct (Nat.eqb n x); [reflexivity|apply A; auto]])) t (schemas_closed x t I)).
    apply H. auto.
  Qed.

  Lemma decides_weaker : forall scope v rho z (l m : leaf -> Prop), fresh scope v = true ->
    (forall k, l k -> m k) -> decides (v :: scope) (update rho v z) l -> decides scope rho m.
  Proof.
    intros scope v rho z l m F LM (rho' & k & A & L & G). exists rho', k. repeat split; auto.
    intros n I. rewrite (agree_update scope rho v z F n I). apply A. right. auto.
  Qed.

  (** The discrete intermediate value theorem: between values of a prefix function there is a tile. *)
  Lemma tile_exists : forall f t (n : nat), prefix f = true -> 0 <= t < phi f (Z.of_nat n) ->
    exists q, 0 <= q < Z.of_nat n /\ phi f q <= t < phi f (q + 1).
  Proof.
    intros f t n P. induction n as [|n IH]; intros H.
    - simpl in H. rewrite prefix_zero in H by auto. lia.
    - destruct (Z_lt_le_dec t (phi f (Z.of_nat n))) as [L|L].
      + destruct IH as (q & Q & R); [lia|]. exists q. split; [lia|auto].
      + exists (Z.of_nat n). split; [lia|]. replace (Z.of_nat n + 1) with (Z.of_nat (S n)) by lia. lia.
  Qed.

  Lemma all_follow_sound : forall rho gamma, holds rho gamma -> forall ss gs, all_follow gamma ss gs = true ->
    forall g, In g gs -> 0 <= eval rho g.
  Proof.
    intros rho gamma H ss. induction ss as [|s ss IH]; intros [|g gs] A g' I; simpl in *; try discriminate; try contradiction.
    apply andb_true_iff in A. destruct A as [A B]. destruct I as [->|I]; [eapply follows_sound; eauto|eapply IH; eauto].
  Qed.

  (** *** Trees are sound *)

  Definition sound_tree (t : tree) : Prop := forall scope gamma rho,
    incl parameters scope -> closed scope gamma -> schemas_hold rho -> holds rho gamma ->
    check scope gamma t = true -> decides scope rho (leaves t).

  (** The branch of the right residue decides. *)
  Definition sound_forest (ks : forest) : Prop := forall scope gamma rho e v r w,
    incl parameters scope -> closed scope gamma -> schemas_hold rho -> holds rho gamma ->
    uses scope e = true -> uses scope (var v) = true ->
    check_all scope gamma e v r w ks = true ->
    forall i, w <= i < w + Z.of_nat (size ks) -> eval rho e = i + r * rho v -> decides scope rho (leaves_of ks).

  Ltac parts H := repeat (apply andb_true_iff in H; let H' := fresh "C" in destruct H as [H H']).

  Lemma holds_cons : forall rho g gamma, 0 <= eval rho g -> holds rho gamma -> holds rho (g :: gamma).
  Proof. intros rho g gamma A B h [<-|I]; auto. Qed.
  Lemma closed_cons : forall scope g gamma, uses scope g = true -> closed scope gamma -> closed scope (g :: gamma).
  Proof. intros scope g gamma A B h [<-|I]; auto. Qed.

  Lemma trees_sound : (forall t, sound_tree t) /\ (forall ks, sound_forest ks).
  Proof.
    apply trees_mut; unfold sound_tree, sound_forest; simpl.
    - (* split *)
      intros c yes IHy no IHn scope gamma rho P C S H K. parts K.
      destruct (Z_le_dec 0 (eval rho c)) as [Q|Q].
      + destruct (IHy scope (c :: gamma) rho) as (r & k & A & L & G); auto.
        * apply closed_cons; auto.
        * apply holds_cons; auto.
        * exists r, k. auto.
      + destruct (IHn scope (plus (-1) c (Const (-1)) :: gamma) rho) as (r & k & A & L & G); auto.
        * apply closed_cons; auto. apply uses_plus; auto.
        * apply holds_cons; auto. rewrite eval_plus. cbn [eval]. lia.
        * exists r, k. auto.
    - (* residues *)
      intros e v ks IH scope gamma rho P C S H K. parts K.
      apply Z.ltb_lt in C1. set (r := Z.of_nat (size ks)) in *.
      set (z := eval rho e / r). set (rho' := update rho v z).
      assert (A : agree scope rho rho') by (apply agree_update; auto).
      apply (decides_weaker scope v rho z (leaves_of ks)); auto. fold rho'.
      apply (IH (v :: scope) gamma rho' e v r 0) with (i := eval rho e mod r); auto.
      + intros n I. right. auto.
      + intros h I. apply uses_more. auto.
      + apply (schemas_agree scope rho rho'); auto.
      + apply (holds_agree scope rho rho'); auto.
      + apply uses_more. auto.
      + apply uses_var.
      + pose proof (Z.mod_pos_bound (eval rho e) r C1). lia.
      + assert (Ev : rho' v = z) by (unfold rho', update; rewrite Nat.eqb_refl; reflexivity).
        assert (Ee : eval rho' e = eval rho e) by (symmetry; apply (eval_agree scope rho rho' A); auto).
        rewrite Ev, Ee. unfold z. pose proof (Z.div_mod (eval rho e) r ltac:(lia)). lia.
    - (* tile *)
      intros f e top v s1 s2 s3 rest IH scope gamma rho P C S H K. parts K.
      assert (E : 0 <= eval rho e) by (eapply follows_sound; eauto).
      assert (F : 0 <= eval rho (plus (-1) e (shift (-1) (app f top)))) by (eapply follows_sound; eauto).
      assert (T : 0 <= eval rho top) by (eapply follows_sound; eauto).
      rewrite eval_plus, eval_shift in F. unfold app in F. cbn [eval eval_atom] in F.
      destruct (tile_exists f (eval rho e) (Z.to_nat (eval rho top))) as (q & Q & R); auto.
      { rewrite Z2Nat.id by lia. lia. }
      rewrite Z2Nat.id in Q by lia.
      set (rho' := update rho v q).
      assert (A : agree scope rho rho') by (apply agree_update; auto).
      assert (Ev : rho' v = q) by (unfold rho', update; rewrite Nat.eqb_refl; reflexivity).
      assert (Ee : eval rho' e = eval rho e) by (symmetry; apply (eval_agree scope rho rho' A); auto).
      assert (Et : eval rho' top = eval rho top) by (symmetry; apply (eval_agree scope rho rho' A); auto).
      apply (decides_weaker scope v rho q (leaves rest)); auto. fold rho'.
      eapply IH; [| | | |eassumption].
      + intros n I. right. auto.
      + repeat apply closed_cons; try (intros h I; apply uses_more; auto; fail).
        * apply uses_minus; [apply uses_more; auto|apply uses_app, uses_var].
        * apply uses_minus; [|apply uses_more; auto]. simpl. rewrite ?Nat.eqb_refl. reflexivity.
        * apply uses_var.
        * apply uses_minus; [rewrite uses_shift; apply uses_more; auto|apply uses_var].
      + apply (schemas_agree scope rho rho'); auto.
      + repeat apply holds_cons; rewrite ?eval_minus, ?eval_shift; unfold app, var; cbn [eval eval_atom];
          rewrite ?eval_shift; cbn [eval eval_atom]; rewrite ?Ev, ?Ee, ?Et; try lia.
        * match goal with |- context [phi f ?x] => replace x with q by lia end. lia.
        * match goal with |- context [phi f ?x] => replace x with (q + 1) by lia end. lia.
        * apply (holds_agree scope rho rho'); auto.
    - (* monotone *)
      intros f a b s rest IH scope gamma rho P C S H K. parts K.
      assert (D : 0 <= eval rho (minus b a)) by (eapply follows_sound; eauto). rewrite eval_minus in D.
      eapply IH; [exact P| | | |eassumption]; auto.
      + apply closed_cons; auto. apply uses_minus; apply uses_app; auto.
      + apply holds_cons; auto. rewrite eval_minus. unfold app. cbn [eval eval_atom].
        pose proof (prefix_grows f (eval rho a) (eval rho b) K). lia.
    - (* congruent *)
      intros f a b s1 s2 rest IH scope gamma rho P C S H K. parts K.
      assert (D1 : 0 <= eval rho (minus a b)) by (eapply follows_sound; eauto). rewrite eval_minus in D1.
      assert (D2 : 0 <= eval rho (minus b a)) by (eapply follows_sound; eauto). rewrite eval_minus in D2.
      assert (EQ : eval rho a = eval rho b) by lia.
      eapply IH; [exact P| | | |eassumption]; auto.
      + repeat apply closed_cons; auto; apply uses_minus; apply uses_app; auto.
      + repeat apply holds_cons; auto; rewrite eval_minus; unfold app; cbn [eval eval_atom]; rewrite EQ; lia.
    - (* instance *)
      intros i e rest IH scope gamma rho P C S H K. apply andb_true_iff in K. destruct K as [U K].
      destruct (nth_error schemas i) as [[x c]|] eqn:N; [|discriminate]. apply nth_error_In in N.
      eapply IH; [exact P| | | |eassumption]; auto.
      + apply closed_cons; auto. apply (uses_subst scope x e U).
        pose proof (schemas_closed x c N) as SC. revert SC. clear - P.
        assert (W : (forall t, uses (x :: parameters) t = true -> uses (x :: scope) t = true) /\
                    (forall a, uses_atom (x :: parameters) a = true -> uses_atom (x :: scope) a = true)).
        { apply both_mut; simpl; intros; auto.
          - apply andb_true_iff in H1. destruct H1. rewrite H, H0; auto.
          - apply orb_true_iff in H. apply orb_true_iff. destruct H as [H|H]; auto. right.
            apply existsb_exists in H. destruct H as (m & I & EQ). apply existsb_exists. exists m. auto. }
        apply W.
      + apply holds_cons; auto. rewrite (proj1 (eval_subst rho x e)). apply S. auto.
    - (* absurd *)
      intros s scope gamma rho P C S H K. pose proof (follows_sound rho gamma s (Const (-1)) H K) as A. simpl in A. lia.
    - (* leaf *)
      intros l ss scope gamma rho P C S H K. exists rho, l. repeat split; auto; try (intros n I; reflexivity).
      eapply all_follow_sound; eauto.
    - (* no branch *)
      intros scope gamma rho e v r w P C S H U V K i I. lia.
    - (* a branch *)
      intros t IHt ks IHk scope gamma rho e v r w P C S H U V K i I EQ. apply andb_true_iff in K. destruct K as [K1 K2].
      destruct (Z.eq_dec i w) as [->|N].
      + assert (X : decides scope rho (leaves t)).
        { eapply IHt; [exact P| | | |exact K1]; auto.
          - repeat apply closed_cons; auto; apply uses_minus; auto.
          - repeat apply holds_cons; auto; rewrite eval_minus; cbn [eval eval_atom]; lia. }
        destruct X as (rho' & k & A & L & G). exists rho', k. auto.
      + destruct (IHk scope gamma rho e v r (w + 1)) with (i := i) as (rho' & k & A & L & G); auto; [lia|].
        exists rho', k. auto.
  Qed.

  (** A tree that checks decides every valuation of its premises. *)
  Theorem check_sound : forall t scope gamma rho,
    incl parameters scope -> closed scope gamma -> schemas_hold rho -> holds rho gamma ->
    check scope gamma t = true ->
    exists rho' l, agree scope rho rho' /\ leaves t l /\ forall g, In g (needs l) -> 0 <= eval rho' g.
  Proof. intros t scope gamma rho P C S H K. exact (proj1 trees_sound t scope gamma rho P C S H K). Qed.
End Trees.

Print Assumptions check_sound.
